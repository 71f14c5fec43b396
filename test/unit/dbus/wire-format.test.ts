import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { findDescriptors } from "../../../src/dbus/bus-values.ts";
import { type Frame, FrameReader } from "../../../src/dbus/frame-reader.ts";
import { writeMessage } from "../../../src/dbus/message-writer.ts";
import type { BusValue } from "../../../src/dbus/port.ts";
import { parseSocketPaths, sessionBusAddress } from "../../../src/dbus/session-bus-address.ts";
import { parseSignature } from "../../../src/dbus/signature.ts";
import {
  DuplicateKeyError,
  readValues,
  TooManyValuesError,
} from "../../../src/dbus/value-reader.ts";

function writeBytes(signature: string, args: readonly BusValue[], serial = 1): Buffer {
  const message = { type: 4, path: "/a", interface: "a.b", member: "C", signature, args } as const;
  return writeMessage(message, serial, findDescriptors(signature, args));
}

function readFrames(chunks: readonly Buffer[], bodyBytesMax = 1e6): Frame[] {
  const frames: Frame[] = [];
  const reader = new FrameReader(bodyBytesMax, (frame) => frames.push(frame));
  for (const chunk of chunks) reader.push(chunk);
  return frames;
}

function roundTrip(signature: string, args: readonly BusValue[]): BusValue[] {
  const [frame] = readFrames([writeBytes(signature, args)]);
  if (!frame?.body) throw new Error("no message came out");
  return readValues(frame.body, { ...frame, fds: [], valuesMax: 10_000 });
}

describe("addresses of a bus", () => {
  test("are read from the environment", () => {
    expect(sessionBusAddress({})).toBeUndefined();
    expect(
      sessionBusAddress({ DBUS_SESSION_BUS_ADDRESS: "", XDG_RUNTIME_DIR: "run" }),
    ).toBeUndefined();
    expect(
      sessionBusAddress({ DBUS_SESSION_BUS_ADDRESS: "unix:path=/x", XDG_RUNTIME_DIR: "/r" }),
    ).toBe("unix:path=/x");
    const odd = sessionBusAddress({ XDG_RUNTIME_DIR: "/run/ü, user;1" }) ?? "";
    expect(parseSocketPaths(odd)).toEqual(["/run/ü, user;1/bus"]);
  });

  test("may contain the path of a socket", () => {
    expect(parseSocketPaths("unix:path=/run/user/1000/bus,guid=12")).toEqual([
      "/run/user/1000/bus",
    ]);
    expect(
      parseSocketPaths("tcp:host=x,port=1;unix:abstract=/tmp/a%2cb;unix:guid=1,path=/c"),
    ).toEqual(["\0/tmp/a,b", "/c"]);
    for (const address of ["", "tcp:host=localhost,port=7", "unix:tmpdir=/tmp", "nonsense"]) {
      expect(() => parseSocketPaths(address)).toThrow(
        expect.objectContaining({ busName: "org.freedesktop.DBus.Error.BadAddress" }),
      );
    }
  });
});

describe("D-Bus values", () => {
  test.each<[string, BusValue]>([
    ["y", 7],
    ["b", true],
    ["n", -7],
    ["q", 7],
    ["i", -7],
    ["u", 7],
    ["x", -7n],
    ["t", 7n],
    ["d", 0.5],
    ["s", "text"],
    ["g", "as"],
    ["as", ["text"]],
    ["a{sv}", new Map()],
    ["(yt)", [7, 7n]],
  ])("are kept for a text of any length before %s", (signature, value) => {
    for (const length of [...Array(1_100).keys(), 2_047, 2_048, 3_000, 5_001, 70_000]) {
      const args = ["x".repeat(length), value];
      expect(roundTrip(`s${signature}`, args)).toEqual(args);
    }
  });

  test.each<[string, BusValue[]]>([
    ["", []],
    ["tx", [2n ** 64n - 1n, -(2n ** 63n) + 1n]],
    ["ybnqiud", [255, true, -7, 65_535, -70_000, 4_000_000_000, 0.1]],
    ["sog", ["für dich \u{1f600}", "/a/b_1", "a{sv}"]],
    ["as", [["a", ""]]],
    ["as", [[]]],
    ["aad", [[[1.5, 2], [], [3]]]],
    [
      "(sa(ub))",
      [
        [
          "x",
          [
            [1, true],
            [2, false],
          ],
        ],
      ],
    ],
    ["v", [{ signature: "s", value: "alone" }]],
    [
      "av",
      [
        [
          { signature: "u", value: 1 },
          { signature: "as", value: ["x"] },
        ],
      ],
    ],
    ["a{ss}", [new Map([["k", { signature: "s", value: "v" }]])]],
    [
      "a{sv}",
      [
        new Map<string, { signature: string; value: BusValue }>([
          ["__proto__", { signature: "b", value: false }],
          ["deep", { signature: "a{sv}", value: new Map([["x", { signature: "t", value: 3n }]]) }],
          ["var", { signature: "v", value: { signature: "i", value: -1 } }],
        ]),
      ],
    ],
  ])('values of the signature "%s" are unchanged after writing and reading', (signature, args) => {
    expect(roundTrip(signature, args)).toEqual(args);
  });

  test.each<[string, string, BusValue[]]>([
    ["a{sv}", "a(sv)", ["k", { signature: "s", value: "text" }]],
    ["a{ss}", "a(ss)", ["k", "text"]],
    ["a{us}", "a(us)", [1, "text"]],
  ])("a dictionary %s with the same key twice is refused", (signature, pairs, pair) => {
    // A dictionary is encoded like a list of pairs.
    const read = (...list: BusValue[]) => {
      const [frame] = readFrames([writeBytes(pairs, [list])]);
      const options = { signature, endian: frame?.endian ?? 0, fds: [], valuesMax: 12 };
      return readValues(frame?.body ?? Buffer.alloc(0), options);
    };
    expect(read(pair)).toHaveLength(1);
    expect(() => read(pair, pair)).toThrow(DuplicateKeyError);
  });

  test.each<[string, BusValue[]]>([
    ["s", []],
    ["s", ["a", "b"]],
    ["s", [1]],
    ["s", ["a\0b"]],
    ["u", [-1]],
    ["u", [2 ** 32]],
    ["y", [1.5]],
    ["t", [-1n]],
    ["d", [Number.NaN]],
    ["o", ["no/path"]],
    ["o", ["/trailing/"]],
    ["as", ["a"]],
    ["(ss)", [["a"]]],
    ["a{sv}", [[]]],
    ["v", ["bare"]],
    ["v", [{ signature: "ss", value: "a" }]],
  ])('the signature "%s" rejects values of other types (%#)', (signature, args) => {
    expect(() => writeBytes(signature, args)).toThrow(Error);
  });

  test("texts and numbers of any kind are unchanged after writing and reading", () => {
    const scalar = fc.oneof(
      fc
        .string({ unit: "grapheme" })
        .map((value) => ({ signature: "s", value: value.replaceAll("\0", "") })),
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map((value) => ({ signature: "t", value })),
      fc
        .double({ noNaN: true, noDefaultInfinity: true })
        .map((value) => ({ signature: "d", value })),
      fc.boolean().map((value) => ({ signature: "b", value })),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: "grapheme-ascii" }), scalar), (given) => {
        const options = new Map(Object.entries(given));
        expect(roundTrip("a{sv}", [options])).toEqual([options]);
      }),
      { numRuns: 200 },
    );
  });

  test.each([
    "a",
    "(",
    ")",
    "()",
    "{sv}",
    "a{sv",
    "a{vs}",
    "a{s}",
    "a{svs}",
    "z",
    "a\0",
    "i".repeat(256),
  ])('the text "%s" is not a signature', (text) => {
    expect(() => parseSignature(text)).toThrow(TypeError);
  });

  test("arrays of types with the alignment eight have padding before their first value only", () => {
    expect(bodyOf("ax", [[1n]])?.toString("hex")).toBe("08000000000000000100000000000000");
    expect(bodyOf("ax", [[]])?.toString("hex")).toBe("0000000000000000");
    expect(bodyOf("yau", [1, [2]])?.toString("hex")).toBe("010000000400000002000000");
  });

  test("reading stops when the limit on the number of values is exceeded", () => {
    const [frame] = readFrames([writeBytes("as", [Array.from({ length: 100 }, () => "x")])]);
    const read = (valuesMax: number) =>
      readValues(frame?.body ?? Buffer.alloc(0), {
        signature: "as",
        endian: 108,
        fds: [],
        valuesMax,
      });
    expect(read(101)).toHaveLength(1);
    expect(() => read(100)).toThrow(TooManyValuesError);
  });

  test("descriptors are found at any depth of the values", () => {
    const options = new Map([["x", { signature: "(sah)", value: ["a", [5, 6]] }]]);
    expect(findDescriptors("sha{sv}h", ["7", 3, options, 3])).toEqual([3, 5, 6]);
    expect(findDescriptors("v", [{ signature: "v", value: { signature: "h", value: 9 } }])).toEqual(
      [9],
    );
    expect(findDescriptors("ui", [1, 2])).toEqual([]);
  });
});

describe("frames of D-Bus messages", () => {
  test("are the same however the bytes are split into chunks", () => {
    const stream = Buffer.concat([
      writeBytes("", [], 1),
      writeBytes("s", ["x".repeat(300)], 2),
      writeBytes("ay", [Array.from({ length: 33 }, () => 7)], 3),
    ]);
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: stream.length }), { maxLength: 12 }),
        (cuts) => {
          const edges = [0, ...cuts.toSorted((a, b) => a - b), stream.length];
          const chunks = edges.slice(1).map((end, index) => stream.subarray(edges[index], end));
          const frames = readFrames(chunks);
          expect(frames.map(({ serial, signature }) => [serial, signature])).toEqual([
            [1, ""],
            [2, "s"],
            [3, "ay"],
          ]);
          // The reader keeps only the header of a message that is too long, and still finds the next message.
          const short = readFrames(chunks, 40);
          expect(short.map(({ body }) => body?.length)).toEqual([0, undefined, 37]);
          expect(short[2]?.body).toEqual(frames[2]?.body);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("data that is not a message is an error", () => {
    expect(() => readFrames([Buffer.from("HTTP/1.1 400 Bad Request\r\n")])).toThrow(
      /not a D-Bus message/,
    );
  });

  test("a header that never ends is rejected", () => {
    const head = Buffer.alloc(16);
    head.set([108, 1, 0, 1]);
    head.writeUInt32LE(1 << 20, 12);
    const frames = readFrames([head, Buffer.alloc(1 << 20), writeBytes("", [], 9)]);
    expect(frames.map(({ serial }) => serial)).toEqual([9]);
  });
});

function bodyOf(signature: string, args: BusValue[]): Buffer | undefined {
  return readFrames([writeBytes(signature, args)])[0]?.body;
}
