import { expect, test } from "vitest";
import { socketAddress } from "../../../src/dbus/connect-socket.ts";

const text = (path: string) => socketAddress(path).toString("latin1");

test("the encoded address of a path ends with a NUL byte, and that of an abstract name ends with the name", () => {
  expect(text("/run/bus")).toBe("\x01\0/run/bus\0");
  expect(text("\0name")).toBe("\x01\0\0name");
  expect(text("/ü")).toBe("\x01\0/\xc3\xbc\0");
});

test.each([
  ["a path", "/", 107],
  ["an abstract name", "\0", 108],
])("%s may fill the address structure, but not exceed it", (_, start, longest) => {
  expect(socketAddress(start.padEnd(longest, "x"))).toHaveLength(110);
  expect(() => socketAddress(start.padEnd(longest + 1, "x"))).toThrow(
    expect.objectContaining({ code: "ENAMETOOLONG", syscall: "connect" }),
  );
  // The limit counts bytes, and an `ü` has two bytes.
  expect(() => socketAddress(start.padEnd(80, "ü"))).toThrow("ENAMETOOLONG");
});

test.each(["", "/a\0b", "\0a\0b"])("%j is not a valid address", (path) => {
  expect(() => socketAddress(path)).toThrow(expect.objectContaining({ code: "EINVAL" }));
});
