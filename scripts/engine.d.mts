export const DEFAULT_SOCKET: string;
export function privateEngineDir(): string;
export function privateEngineHost(): string;
export function engineRequest(
  host: string,
  options?: { method?: string; path: string; body?: Buffer; limitMs?: number },
): Promise<{ status: number; text: string }>;
export function answers(host: string, limitMs?: number): Promise<boolean>;
export function isRoot(): boolean;
export function isDebianLike(): boolean;
export function which(program: string): string | undefined;
export function confirm(question: string): Promise<boolean>;
export function aptInstall(packages: readonly string[], why: string): Promise<void>;
export function startPrivateEngine(): Promise<{ host: string; started: boolean }>;
export function stopPrivateEngine(): Promise<void>;
export function privateEngineInUse(): boolean;

export interface Isolation {
  bridge: string;
  bridgeAddress: string;
  range: string;
  pool: string;
  outbound: boolean;
}
export function startDockerd(options: {
  socket: string;
  dataRoot: string;
  execRoot: string;
  pidFile: string;
  logFile: string;
  isolation?: Isolation;
}): Promise<void>;
export function stopDockerd(options: { pidFile: string; isolation?: Isolation }): Promise<void>;
