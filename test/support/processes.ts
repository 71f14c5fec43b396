import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";

/** Returns true if the process runs. A zombie does not count: it has ended, but its parent has not waited for it. */
export function isProcessAlive(pid: number): boolean {
  try {
    return !/^.*\) Z /s.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** Returns the process ids of a process's children, of their children, and so on. */
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

/**
 * Returns the ids of the processes whose command line contains `text`, such as the path of a folder that only the test
 * uses.
 */
export async function processesNaming(text: string): Promise<number[]> {
  return await processesWhere("cmdline", (command) => command.includes(text));
}

/** Returns the ids of the processes with an environment variable whose `NAME=value` begins with `variable`. */
export async function processesWith(variable: string): Promise<number[]> {
  return await processesWhere("environ", (text) =>
    text.split("\0").some((line) => line.startsWith(variable)),
  );
}

/**
 * Returns the processes whose root is an overlay file system with its upper layer below `dir`, such as those of an
 * engine's containers.
 */
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

/** Kills a process with SIGKILL; does nothing if it has already ended. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}

async function allProcesses(): Promise<number[]> {
  const entries = await readdir("/proc");
  return entries.filter((entry) => /^\d+$/.test(entry)).map(Number);
}
