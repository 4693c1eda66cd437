// npm's `prepare`, under Node because Bun may only just have been installed. It bundles the hooks' entries into dist/,
// as bytecode: a hook that loads its modules one by one from source pays for each of them on every tool call.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const packageRoot = fileURLToPath(new URL("..", import.meta.url));

// `npm install -g .` links this folder without installing its dependencies, and marks the environment as global.
function installDependencies() {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_config_/i.test(name)));
  execFileSync("npm", ["install", "--omit=dev"], {
    cwd: packageRoot,
    env,
    stdio: ["ignore", "ignore", "inherit"],
  });
}

// Several entries, because what only one of them needs would slow every other one down.
function bundleHooks() {
  for (const entry of ["hook", "tool-start", "session-start", "launch"]) {
    const options = ["--target=bun", "--format=cjs", "--minify", "--bytecode", "--outdir=dist"];
    execFileSync(`${packageRoot}node_modules/.bin/bun`, ["build", `src/hooks/${entry}.ts`, ...options], {
      cwd: packageRoot,
      stdio: ["ignore", "ignore", "inherit"],
    });
  }
  copyFileSync(`${packageRoot}src/hooks/waiter.sh`, `${packageRoot}dist/waiter.sh`);
}

if (existsSync(`${packageRoot}node_modules/bun`)) bundleHooks();
else installDependencies();
