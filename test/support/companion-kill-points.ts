import type { ObservedAnswer } from "./companion-client.ts";
import type { FaultHarness, TraceTarget } from "./fault-harness.ts";

export interface KillPoint {
  readonly target: TraceTarget;
  readonly systemCall: string;
  readonly nth: number;
}

const FILE_CALLS = "fcntl,pwrite64,pread64,fsync,fdatasync,ftruncate";
const SOCKET_CALLS = "write,writev,sendmsg,sendto,recvmsg,connect,socket";

/** The results of a fixed sequence of calls: one that runs immediately, one that the user confirms, and an undo. */
export interface CallSequenceResult {
  readonly star: ObservedAnswer | undefined;
  readonly parked: ObservedAnswer | undefined;
  readonly made: ObservedAnswer | undefined;
  readonly undone: number | null | undefined;
}

export async function runCallSequence(
  harness: FaultHarness,
  name: string,
): Promise<CallSequenceResult> {
  const star = await harness.request("star", `${name}-star`);
  const parked = await harness.request("make", `${name}-make`);
  const made = parked && (await harness.client.confirm(parked.callId));
  const undo = made && (await harness.client.undo());
  return { star, parked, made, undone: undo?.status === "undone" ? undo.call_id : undefined };
}

/**
 * Runs the call sequence under strace and lists the points at which the running daemon can be killed: each system
 * call on the ledger or on the journal, and each one of the main thread on sockets, in order.
 */
export async function findKillPoints(harness: FaultHarness, name: string): Promise<KillPoint[]> {
  const tracer = await harness.trace("all", ["-y", "-e", `trace=${FILE_CALLS},${SOCKET_CALLS}`]);
  await runCallSequence(harness, name);
  await tracer.detach();
  const main = String(harness.companion.ready.pid);
  const counts = new Map<string, number>();
  const found: KillPoint[] = [];
  const calls = /^(?<thread>\d+) +(?<call>[a-z0-9_]+)\((?<rest>.*)$/gm;
  for (const { groups } of (await tracer.log()).matchAll(calls)) {
    const { thread, call = "", rest = "" } = groups ?? {};
    const file = /^\d+<[^>]*\/(ledger|agent)\.db/.exec(rest)?.[1];
    const isSocketCall = SOCKET_CALLS.split(",").includes(call);
    const traced = file === "ledger" ? "ledger" : file === "agent" ? "journal" : "main";
    if (traced === "main" && (thread !== main || !isSocketCall)) continue;
    const key = `${traced} ${call}`;
    const nth = (counts.get(key) ?? 0) + 1;
    counts.set(key, nth);
    found.push({ target: traced, systemCall: call, nth });
  }
  return found;
}
