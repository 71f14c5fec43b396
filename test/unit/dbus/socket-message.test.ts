import { describe, expect, test } from "vitest";
import { DESCRIPTORS_MAX } from "../../../src/dbus/socket-calls.ts";
import {
  getControlBytes,
  readDescriptors,
  SocketMessage,
  writeDescriptors,
} from "../../../src/dbus/socket-message.ts";

/** Returns a control message in the kernel's form, with padding. */
function controlMessage(level: number, type: number, data: Buffer): Buffer {
  const bytes = Buffer.alloc(Math.ceil((16 + data.length) / 8) * 8);
  bytes.writeBigUInt64LE(BigInt(16 + data.length), 0);
  bytes.writeInt32LE(level, 8);
  bytes.writeInt32LE(type, 12);
  data.copy(bytes, 16);
  return bytes;
}

function numbers(...fds: readonly number[]): Buffer {
  return Buffer.from(Int32Array.from(fds).buffer);
}

describe("control data", () => {
  test.each([1, 2, 3, 252, DESCRIPTORS_MAX])(
    "%i descriptors are the same after writing and reading",
    (count) => {
      const fds = Array.from({ length: count }, (_, index) => index + 3);
      const control = Buffer.alloc(getControlBytes(count), 0xff);
      expect(writeDescriptors(control, fds)).toBe(control.length);
      expect(control).toEqual(controlMessage(1, 1, numbers(...fds)));
      expect(readDescriptors(control)).toEqual(fds);
    },
  );

  test("control messages of other types are skipped", () => {
    const credentials = controlMessage(1, 2, numbers(1, 0, 0));
    const otherLevel = controlMessage(41, 1, numbers(9));
    const control = Buffer.concat([
      credentials,
      controlMessage(1, 1, numbers(5, 6, 7)),
      otherLevel,
      controlMessage(1, 1, numbers(8)),
    ]);
    expect(readDescriptors(control)).toEqual([5, 6, 7, 8]);
  });

  test("64 KiB of control data are read completely", () => {
    const one = controlMessage(1, 1, numbers(4, 5));
    const control = Buffer.concat(Array.from({ length: 65_536 / one.length }, () => one));
    expect(control).toHaveLength(65_520);
    expect(readDescriptors(control)).toHaveLength((2 * 65_520) / one.length);
  });

  test("truncated control data yields the descriptors that are complete", () => {
    const control = controlMessage(1, 1, numbers(5, 6, 7));
    expect(readDescriptors(control.subarray(0, 26))).toEqual([5, 6]);
    expect(readDescriptors(control.subarray(0, 16))).toEqual([]);
    expect(readDescriptors(control.subarray(0, 9))).toEqual([]);
    expect(readDescriptors(Buffer.alloc(0))).toEqual([]);
  });

  test("a control message that is shorter than its header ends the reading", () => {
    expect(readDescriptors(Buffer.alloc(64))).toEqual([]);
  });
});

describe("a socket message header", () => {
  let next = 0n;
  const addresses = new Map<Buffer, bigint>();
  const addressOf = (memory: Buffer) => {
    const known = addresses.get(memory);
    if (known !== undefined) return known;
    next += 0x1_0000_0000n;
    addresses.set(memory, next);
    return next;
  };

  test("has the layout of 64-bit Linux, with zeros where musl has padding", () => {
    const message = new SocketMessage(10, 20, addressOf);
    message.header.fill(0xff, 40, 52); // A system call may leave such values in the padding.
    message.setLengths(7, 16);
    const words = Array.from({ length: 9 }, (_, index) =>
      message.header.readBigUInt64LE(8 * index),
    );
    expect(words).toEqual([
      0n,
      0n,
      addressOf(message.header) + 56n,
      1n,
      addressOf(message.control),
      16n,
      0n,
      addressOf(message.data),
      7n,
    ]);
  });

  test("contains the length of the received control data, and the flag for truncated control data", () => {
    const message = new SocketMessage(10, 64, addressOf);
    const length = writeDescriptors(message.control, [3, 4]);
    message.header.writeUInt32LE(length, 40);
    message.header.writeUInt32LE(0x4000_0000, 48);
    expect(readDescriptors(message.receivedControl)).toEqual([3, 4]);
    expect(message.isControlTruncated).toBe(false);
    message.header.writeUInt32LE(0x4000_0008, 48);
    expect(message.isControlTruncated).toBe(true);
  });
});
