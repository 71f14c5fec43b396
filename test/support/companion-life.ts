import type { AnswerSeen } from "./companion-client.ts";
import type { FaultWorld, Traced } from "./fault-world.ts";

export interface Place {
  readonly traced: Traced;
  readonly name: string;
  readonly nth: number;
}

const FILE_CALLS = "fcntl,pwrite64,pread64,fsync,fdatasync,ftruncate";
const SOCKET_CALLS = "write,writev,sendmsg,sendto,recvmsg,connect,socket";

/** What a daemon does in its life: a call at once, a confirmed one, and an undo. */
export interface Life {
  readonly star: AnswerSeen | undefined;
  readonly parked: AnswerSeen | undefined;
  readonly made: AnswerSeen | undefined;
  readonly undone: number | null | undefined;
}

export async function live(world: FaultWorld, name: string): Promise<Life> {
  const star = await world.request("star", `${name}-star`);
  const parked = await world.request("make", `${name}-make`);
  const made = parked && (await world.client.confirm(parked.callId));
  const undo = made && (await world.client.undo());
  return { star, parked, made, undone: undo?.status === "undone" ? undo.call_id : undefined };
}

/** Where the life of the daemon that runs can be cut off: the system calls on each thing, in their order. */
export async function placesOf(world: FaultWorld, name: string): Promise<Place[]> {
  const tracer = await world.trace("all", ["-y", "-e", `trace=${FILE_CALLS},${SOCKET_CALLS}`]);
  await live(world, name);
  await tracer.detach();
  const main = String(world.companion.ready.pid);
  const counts = new Map<string, number>();
  const found: Place[] = [];
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
    found.push({ traced, name: call, nth });
  }
  return found;
}
