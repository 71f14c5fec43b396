import { execFile } from "node:child_process";
import { chmod, readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { which } from "../../scripts/engine.mjs";

const run = promisify(execFile);

/** The toolchain for programs whose modules need a newer Go than that of the Linux distribution. */
const TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.26.0";

/**
 * Returns the path of a Go that can build current modules. Go 1.21 and later fetch a newer toolchain when a module
 * needs it. If the machine's Go is older, the result is a toolchain from the module proxy.
 */
export async function findCurrentGo(): Promise<string> {
  const go = which("go");
  if (!go) throw new Error("this test compiles programs and needs Go: apt-get install golang-go");
  const { stdout: version } = await run(go, ["env", "GOVERSION"]);
  if (Number(/^go1\.(\d+)/.exec(version)?.[1] ?? 0) >= 21) return go;
  const arch = process.arch === "arm64" ? "arm64" : "amd64";
  const { stdout } = await run(go, ["mod", "download", "-json", `${TOOLCHAIN}.linux-${arch}`]);
  const { Dir: folder }: { Dir: string } = JSON.parse(stdout);
  // The archive of a module stores no execute permission, so the programs of the toolchain get it here.
  const tools = await readdir(join(folder, "pkg/tool", `linux_${arch}`));
  const programs = [
    join(folder, "bin/go"),
    ...tools.map((name) => join(folder, "pkg/tool", `linux_${arch}`, name)),
  ];
  for (const program of programs) await chmod(program, 0o755);
  return join(folder, "bin/go");
}
