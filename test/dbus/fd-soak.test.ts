import { closeSync, fstatSync, openSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { openDescriptors, openedBy } from "../support/open-descriptors.ts";
import { Dice } from "../support/random.ts";
import { SEED } from "../support/sampling.ts";
import type { SocketPeer } from "../support/socket-peer.ts";
import { socketPeers } from "../support/socket-peer.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";

/**
 * The number of messages. The test ran with a million messages whenever the transport was changed, but fewer
 * messages detect a leak or a mix-up as well.
 */
const MESSAGES = Number(process.env["BERTH_BUS_MESSAGES"] ?? 20_000);
const FILES = 8;
/**
 * The size of a message's header in bytes: four numbers of 32 bits, which are the message's length, its sequence
 * number, the number of its descriptors, and the index of its first descriptor's file.
 */
const HEADER_BYTES = 16;
const PENDING_BYTES_MAX = 1 << 20;

interface Message {
  readonly bytes: Buffer;
  readonly files: readonly number[];
}

/** Creates message `number` of one direction. Most messages are short, and some are longer than a socket's buffer. */
function createMessage(random: Dice, number: number): Message {
  const length = random.chance(0.01) ? random.between(0, 300_000) : random.between(0, 400);
  const count = random.chance(0.3) ? random.between(1, 4) : 0;
  const first = random.between(0, FILES - 1);
  const bytes = Buffer.alloc(HEADER_BYTES + length, number % 251);
  bytes.writeUInt32LE(bytes.length, 0);
  bytes.writeUInt32LE(number, 4);
  bytes.writeUInt32LE(count, 8);
  bytes.writeUInt32LE(first, 12);
  return { bytes, files: Array.from({ length: count }, (_, index) => (first + index) % FILES) };
}

async function sendAll(from: SocketPeer, random: Dice, fds: readonly number[]): Promise<void> {
  for (let number = 0; number < MESSAGES; number++) {
    const { bytes, files } = createMessage(random, number);
    const written = from.write(
      bytes,
      files.map((file) => fds[file] ?? -1),
    );
    if (from.transport.pendingBytes > PENDING_BYTES_MAX) await written;
    // The pause lets other work run, as it does in a daemon between calls.
    else if (number % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Checks each message as it arrives and closes its descriptors. Resolves to the number of messages. */
function receiveAll(at: SocketPeer, inodes: readonly number[]): Promise<number> {
  let chunks: Buffer[] = [];
  let held = 0;
  let needed = HEADER_BYTES;
  let count = 0;
  const fds: number[] = [];
  const onMessage = (bytes: Buffer) => {
    const [number, fdCount, first] = [4, 8, 12].map((offset) => bytes.readUInt32LE(offset));
    if (number !== count) throw new Error(`message ${number} in place of ${count}`);
    const filling = bytes.subarray(HEADER_BYTES);
    if (filling.some((byte) => byte !== count % 251)) throw new Error(`message ${count} is broken`);
    for (let index = 0; index < (fdCount ?? 0); index++) {
      const fd = fds.shift() ?? -1;
      if (fstatSync(fd).ino !== inodes[((first ?? 0) + index) % FILES]) {
        throw new Error(`message ${count} has another one's descriptor`);
      }
      closeSync(fd);
    }
    count += 1;
  };
  return new Promise((resolve, reject) => {
    at.transport.start({
      onFds: (received) => fds.push(...received),
      onData: (chunk) => {
        chunks.push(chunk);
        held += chunk.length;
        if (held < needed) return;
        let all = Buffer.concat(chunks);
        try {
          while (all.length >= HEADER_BYTES && all.length >= all.readUInt32LE(0)) {
            const length = all.readUInt32LE(0);
            onMessage(all.subarray(0, length));
            all = all.subarray(length);
          }
        } catch (error) {
          reject(error);
          at.transport.destroy();
        }
        chunks = [all];
        held = all.length;
        needed = all.length >= HEADER_BYTES ? all.readUInt32LE(0) : HEADER_BYTES;
        if (count === MESSAGES) resolve(fds.length === 0 ? count : -1);
      },
      onClosed: (error) => reject(new Error("closed", { cause: error })),
    });
  });
}

test(
  `${MESSAGES} messages each way are neither lost, reordered nor leaked (BERTH_SEED=${SEED})`,
  async () => {
    const dir = await mkdtemp(path.join(os.tmpdir(), "berth-soak-"));
    const fds = Array.from({ length: FILES }, (_, file) =>
      openSync(path.join(dir, `${file}`), "w"),
    );
    const inodes = fds.map((fd) => fstatSync(fd).ino);
    const [left, right] = await socketPeers();
    // Other tests of this process may close descriptors meanwhile, so fewer may be open at the end.
    const openBefore = openDescriptors();
    const countOpenFiles = () => openedBy("self").filter((name) => name.startsWith(dir)).length;
    const received = [receiveAll(left, inodes), receiveAll(right, inodes)];
    await Promise.all([
      sendAll(left, new Dice(SEED), fds),
      sendAll(right, new Dice(SEED + 1), fds),
      ...received,
    ]);
    expect(await Promise.all(received)).toEqual([MESSAGES, MESSAGES]);
    expect(countOpenFiles()).toBe(FILES);
    expect([left.transport.pendingBytes, right.transport.pendingBytes]).toEqual([0, 0]);
    left.transport.destroy();
    right.transport.destroy();
    await vi.waitFor(
      () => expect(openDescriptors()).toBeLessThanOrEqual(openBefore - 2),
      WAIT_OPTIONS,
    );
    for (const fd of fds) closeSync(fd);
    await rm(dir, { recursive: true });
  },
  Math.max(60_000, MESSAGES),
);
