/**
 * `{{key}}` becomes the text of the key; what stands between the lines `{{#key}}` and `{{/key}}` goes when the text is
 * empty. Texts are put in last and once, so that braces inside of them mean nothing.
 */
export function renderTemplate(template: string, texts: Readonly<Record<string, string>>): string {
  const textOf = (key: string) => {
    const text = Object.hasOwn(texts, key) ? texts[key] : undefined;
    if (text === undefined) throw new Error(`the template names ${key}, which nobody gives`);
    return text;
  };
  const chosen = template.replaceAll(
    /^\{\{#(\w+)\}\}\n([\s\S]*?)^\{\{\/\1\}\}\n?/gm,
    (_, key: string, inner: string) => (textOf(key) === "" ? "" : inner),
  );
  const tidy = `${chosen.replaceAll(/\n{3,}/g, "\n\n").trim()}\n`;
  return tidy.replaceAll(/\{\{(\w+)\}\}/g, (_, key: string) => textOf(key));
}
