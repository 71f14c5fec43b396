import type { ChildProcess } from "node:child_process";

/** Returns true if Berth supports this version of Node.js, by default that of this process. */
export function isFit(version?: string): boolean;
export function ensure(): Promise<void>;
export function continueOnPinnedNode(args: readonly string[]): void;
export function exitAs(child: ChildProcess): void;
export function environmentOf(node: string): NodeJS.ProcessEnv;
/** Returns undefined if the machine has no npm. */
export function npmCommand():
  | { readonly command: string; readonly args: readonly string[]; readonly env: NodeJS.ProcessEnv }
  | undefined;
