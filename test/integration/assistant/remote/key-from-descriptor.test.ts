import { execFileSync, spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { KeyDescriptor } from "../../../../src/assistant/remote/key-descriptor.ts";
import { createSecretPipe } from "../../../../src/cli/companion/remote/secret-pipe.ts";
import { bundleProgram } from "../../../support/bundle-program.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const PROGRAM = await bundleProgram("test/support/descriptor-process.ts");
const never = new AbortController().signal;

const keyFromDescriptor = (fd: number, signal: AbortSignal) => new KeyDescriptor(fd).read(signal);

function fileHolding(words: string): { fd: number; readonly file: string } {
  const file = join(temporaryFolder("descriptor"), "key");
  writeFileSync(file, words);
  return { fd: openSync(file, "r"), file };
}

/** Returns the path that the descriptor refers to; undefined if the descriptor is closed. */
function opened(fd: number): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return undefined;
  }
}

describe("reading a key from a file descriptor", () => {
  it("from a pipe reads to the end and closes the descriptor", async () => {
    const fd = await createSecretPipe("sk-é", {});
    const pipe = opened(fd);
    expect(await keyFromDescriptor(fd, never)).toBe("sk-é");
    await expect.poll(() => opened(fd)).not.toBe(pipe);
  });

  it("from a file returns the file's content", async () => {
    const { fd, file } = fileHolding("sk-1\n");
    expect(await keyFromDescriptor(fd, never)).toBe("sk-1\n");
    await expect.poll(() => opened(fd)).not.toBe(file);
  });

  it("accepts 16 KiB at most", async () => {
    const longest = "x".repeat(16 * 1024);
    expect(await keyFromDescriptor(fileHolding(longest).fd, never)).toBe(longest);
    expect(await keyFromDescriptor(await createSecretPipe(longest, {}), never)).toBe(longest);
    for (const fd of [fileHolding(`${longest}x`).fd, await createSecretPipe(`${longest}x`, {})])
      await expect(keyFromDescriptor(fd, never)).rejects.toMatchObject({
        code: "invalid_request",
        param: "key",
        message: expect.stringContaining("longer than 16384 bytes"),
      });
  });

  it("ends when its caller aborts, even if the sender keeps the pipe open", async () => {
    const leaving = new AbortController();
    // This process keeps both ends of the pipe open, so a read never reaches the end.
    const { fd, file } = endlessPipe();
    const reading = keyFromDescriptor(fd, leaving.signal);
    leaving.abort(new Error("gone"));
    await expect(reading).rejects.toThrow("gone");
    await expect.poll(() => opened(fd)).not.toBe(file);
  });
});

it("a key from a caller without permission is not read, and its descriptor is closed once", async () => {
  const { fd, file } = fileHolding("sk-1");
  {
    using _ = new KeyDescriptor(fd);
  }
  await expect.poll(() => opened(fd)).not.toBe(file);
  const other = fileHolding("sk-2");
  {
    using descriptor = new KeyDescriptor(other.fd);
    expect(await descriptor.read(never)).toBe("sk-2");
    await expect.poll(() => opened(other.fd)).not.toBe(other.file);
    // Another file gets the number of the closed descriptor, which must not be closed a second time.
    other.fd = openSync(other.file, "r");
  }
  await new Promise((resolve) => setImmediate(resolve));
  expect(opened(other.fd)).toBe(other.file);
  closeSync(other.fd);
});

describe("reading a key from a file descriptor fails", () => {
  it.each(["/", "/dev/zero", "/dev/null"])("for the file %s", async (path) => {
    const fd = openSync(path, "r");
    await expect(keyFromDescriptor(fd, never)).rejects.toMatchObject({
      code: "invalid_request",
      param: "key",
    });
    await expect.poll(() => opened(fd)).not.toBe(path);
  });

  it("for an invalid descriptor", async () => {
    await expect(keyFromDescriptor(1_000_000, never)).rejects.toMatchObject({
      code: "invalid_request",
    });
  });

  it("for a datagram socket, and the socket is closed", async () => {
    const socket = createSocket("udp4");
    onTestFinished(() => void socket.close());
    socket.bind(0, "127.0.0.1");
    await once(socket, "listening");
    const fd = descriptorOf(socket.address().port);
    const child = spawn(process.execPath, [PROGRAM], {
      stdio: ["ignore", "pipe", "inherit", fd],
    });
    const { stdout } = child;
    if (!stdout) throw new Error("it has no output");
    expect(await text(stdout)).toBe("invalid_request");
  });
});

/** Returns this process's file descriptor of the UDP socket on this port. Node does not expose that descriptor. */
function descriptorOf(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const fields = readFileSync("/proc/self/net/udp", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .find(([, address]) => address?.endsWith(local));
  const link = `socket:[${fields?.[9]}]`;
  const name = readdirSync("/proc/self/fd").find((fd) => linkOf(fd) === link);
  if (name === undefined) throw new Error(`no descriptor of UDP port ${port} was found`);
  return Number(name);
}

function linkOf(fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    // This may be the descriptor that `readdirSync` used to list /proc/self/fd. It is closed by now.
    return undefined;
  }
}

function endlessPipe() {
  const file = join(temporaryFolder("descriptor"), "pipe");
  execFileSync("mkfifo", [file]);
  return { fd: openSync(file, "r+"), file };
}
