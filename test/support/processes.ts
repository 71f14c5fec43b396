import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";

/** False also for one that has ended, and that nobody has asked how. */
export function isProcessAlive(pid: number): boolean {
  try {
    return !/^.*\) Z /s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** The processes that this one has started, and those that they have. */
export async function descendantsOf(pid: number): Promise<number[]> {
  const parents = new Map<number, number>();
  for (const process of await allProcesses()) {
    const stat = await readFile(`/proc/${process}/stat`, "utf8").catch(() => "");
    parents.set(process, Number(/^.*\) \S (\d+)/s.exec(stat)?.[1]));
  }
  const found: number[] = [];
  for (let members = [pid]; members.length > 0; ) {
    members = [...parents].flatMap(([child, parent]) => (members.includes(parent) ? [child] : []));
    found.push(...members);
  }
  return found;
}

/** Those whose command line names something, such as a folder that is one test's alone. */
export async function processesNaming(text: string): Promise<number[]> {
  return await processesWhere("cmdline", (command) => command.includes(text));
}

/** Those that have a variable in their environment whose line, `NAME=value`, begins so. */
export async function processesWith(variable: string): Promise<number[]> {
  return await processesWhere("environ", (text) =>
    text.split("\0").some((line) => line.startsWith(variable)),
  );
}

/** Those whose file systems are kept below a folder, as those of an engine's containers are. */
export async function processesRootedBelow(dir: string): Promise<number[]> {
  return await processesWhere("mountinfo", (text) =>
    (text.split("\n")[0] ?? "").includes(`upperdir=${dir}/`),
  );
}

async function processesWhere(file: string, is: (text: string) => boolean): Promise<number[]> {
  const found: number[] = [];
  for (const process of await allProcesses()) {
    if (is(await readFile(`/proc/${process}/${file}`, "utf8").catch(() => ""))) found.push(process);
  }
  return found;
}

/** As if by `kill -9`; nothing where it has ended meanwhile. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

async function allProcesses(): Promise<number[]> {
  const entries = await readdir("/proc");
  return entries.filter((entry) => /^\d+$/.test(entry)).map(Number);
}
