/** Only this is ever stored of a worker's token. */
export function hashToken(token: string): string {
  return Bun.CryptoHasher.hash("sha256", token, "hex");
}
