import type { ContainerInspectInfo } from "dockerode";
import { describe, expect, it } from "vitest";
import { parseDockerHost } from "../../../../src/controller/runtime/docker-address.ts";
import {
  errorFromEngineText,
  isAddressRefused,
  isPortTakenError,
  PULL_ACTION_PREFIX,
  toEngineError,
} from "../../../../src/controller/runtime/docker-errors.ts";
import { toObservedContainer } from "../../../../src/controller/runtime/docker-observe.ts";
import { countOpen, parseListening } from "../../../../src/controller/runtime/docker-ports.ts";
import { splitReference } from "../../../../src/controller/runtime/docker-reference.ts";

const isInspection = (value: object): value is ContainerInspectInfo => "State" in value;

/** Returns the state of a container whose inspection returns the given status and error. */
const stateOf = (Status: string, text: string) => {
  const inspection = {
    Id: "a".repeat(64),
    Name: "/web",
    Config: { Labels: {}, Image: "web:1" },
    State: { Status, ExitCode: 143, Error: text },
    NetworkSettings: {},
    HostConfig: {},
  };
  return isInspection(inspection)
    ? toObservedContainer(inspection, undefined, undefined).state
    : undefined;
};
describe("a container that the engine can never start again", () => {
  const leftover = `task ${"a".repeat(64)}: already exists: unknown`;

  it('is one in the state "dead"', () => {
    expect(stateOf("exited", leftover)).toBe("dead");
    expect(stateOf("created", leftover)).toBe("dead");
    expect(stateOf("exited", "id already in use")).toBe("dead");
  });

  it("is neither a running container nor one that a retry may start", () => {
    expect(stateOf("running", leftover)).toBe("running");
    expect(stateOf("exited", "")).toBe("exited");
    expect(stateOf("exited", "exec: no such file")).toBe("exited");
    expect(stateOf("exited", "network web already exists")).toBe("exited");
    expect(stateOf("paused", leftover)).toBe("paused");
    expect(stateOf("exited", "the vm id already in use")).toBe("exited");
    expect(stateOf("exited", `task ${"b".repeat(64)}: already exists`)).toBe("exited");
  });
});

describe("the engine's address", () => {
  it.each([
    [
      undefined,
      { transport: "unix", socketPath: "/var/run/docker.sock", location: "this-machine" },
    ],
    [
      "unix:///run/x.sock",
      { transport: "unix", socketPath: "/run/x.sock", location: "this-machine" },
    ],
    ["/run/x.sock", { transport: "unix", socketPath: "/run/x.sock", location: "this-machine" }],
    [
      "tcp://10.0.0.2:2375",
      { transport: "http", host: "10.0.0.2", port: 2375, location: "remote" },
    ],
    ["tcp://box:2376", { transport: "https", host: "box", port: 2376, location: "remote" }],
    ["http://box", { transport: "http", host: "box", port: 2375, location: "remote" }],
    ["https://box", { transport: "https", host: "box", port: 2376, location: "remote" }],
    ["box:1234", { transport: "http", host: "box", port: 1234, location: "remote" }],
    ["tcp://localhost", { transport: "http", host: "localhost", port: 2375, location: "loopback" }],
    [
      "tcp://127.0.0.1:2375",
      { transport: "http", host: "127.0.0.1", port: 2375, location: "loopback" },
    ],
    ["tcp://[::1]:1", { transport: "http", host: "::1", port: 1, location: "loopback" }],
    [
      "tcp://[fd00::2]:2375",
      { transport: "http", host: "fd00::2", port: 2375, location: "remote" },
    ],
  ])("reads %s", (text, expected) => {
    expect(parseDockerHost(text)).toEqual(expected);
  });

  it.each([
    "ssh://root@box",
    "npipe:////./pipe/docker",
    "tcp://",
    "tcp://box/path",
    "tcp://u:p@box",
  ])("refuses %s, without showing it in the error", (text) => {
    expect(() => parseDockerHost(text)).toThrow(
      expect.objectContaining({
        code: "invalid_request",
        message: expect.not.stringContaining(text),
      }),
    );
  });
});

describe("an image reference", () => {
  const digest = `sha256:${"a".repeat(64)}`;
  it.each([
    ["nginx", "nginx", "latest"],
    ["nginx:1.27", "nginx", "1.27"],
    ["localhost:5000/team/app", "localhost:5000/team/app", "latest"],
    ["localhost:5000/team/app:2", "localhost:5000/team/app", "2"],
    [`nginx:1.27@${digest}`, "nginx", digest],
    [`localhost:5000/app@${digest}`, "localhost:5000/app", digest],
  ])("is split into name and tag: %s", (reference, image, tag) => {
    expect(splitReference(reference)).toEqual({ image, tag });
  });

  it.each(["", "a b", "../x", "a//b", "a?b=c", "a#b", "nginx:1\n"])(
    "is refused if it is invalid: %j",
    (reference) => {
      expect(() => splitReference(reference)).toThrow(
        expect.objectContaining({ code: "image_not_found" }),
      );
    },
  );
});

describe("an engine error that refuses a container's address", () => {
  it.each([
    "Address already in use",
    "failed to set up container networking: Address already in use",
    "user specified IP address is supported only when connecting to networks with user configured subnets",
    "invalid config for network x: invalid endpoint settings:\nno configured subnet or ip-range contain the IP address 10.0.0.9",
    "no configured subnet contains IP address 10.0.0.9",
  ])("is not confused with an error about a port: %s", (message) => {
    const cause = Object.assign(new Error(message), { statusCode: 403, json: { message } });
    const error = toEngineError(cause, "start the container x");
    expect(error.code).toBe("engine_error");
    expect(isAddressRefused(error)).toBe(true);
    expect(isPortTakenError(message)).toBe(false);
  });

  it("is not confused with the error for a taken port or a missing network", () => {
    const message = "listen tcp4 0.0.0.0:80: bind: address already in use";
    expect(isPortTakenError(message)).toBe(true);
    for (const text of [message, "network x not found"])
      expect(isAddressRefused(Object.assign(new Error(text), { statusCode: 500 }))).toBe(false);
  });
});

describe("an error of the engine", () => {
  it.each([
    [
      "start the container x",
      "driver failed programming external connectivity on endpoint x (abc): Bind for 127.0.0.1:8080 failed: port is already allocated",
      "port_taken",
      "127.0.0.1:8080",
    ],
    [
      "start the container x",
      "driver failed programming external connectivity on endpoint x: Error starting userland proxy: listen tcp4 0.0.0.0:80: bind: address already in use",
      "port_taken",
      "0.0.0.0:80",
    ],
    [
      "start the container x",
      "failed to bind host port for 127.0.0.1:80:172.18.0.2:80/tcp: address already in use",
      "port_taken",
      "port",
    ],
    [
      "create the container x",
      "open /var/lib/docker/overlay2/abc/lower: no space left on device",
      "disk_full",
      "disk is full",
    ],
    [
      "create the container x from y",
      "No such image: y:latest",
      "image_not_found",
      "no such image",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      "manifest for x:9 not found: manifest unknown: manifest unknown",
      "image_not_found",
      "no such image",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      "no matching manifest for linux/arm64/v8 in the manifest list entries",
      "image_not_found",
      "platform",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
      "image_not_found",
      "private",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      'Head "https://ghcr.io/v2/x/manifests/1": denied',
      "registry_denied",
      "denied",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      'Get "https://r.test/v2/": unauthorized: authentication required',
      "registry_denied",
      "denied",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      "toomanyrequests: You have reached your pull rate limit",
      "engine_error",
      "limits",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      'Get "https://r.test/v2/": dial tcp: lookup r.test: no such host',
      "registry_unreachable",
      "r.test",
    ],
    [
      `${PULL_ACTION_PREFIX}x`,
      "write /var/lib/docker/tmp/GetImageBlob1: no space left on device",
      "disk_full",
      "disk is full",
    ],
    [
      "start the container x",
      'failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/app": permission denied: unknown',
      "engine_error",
      'x: exec: "/app": permission denied',
    ],
    [
      "create the network x",
      "could not find an available, non-overlapping IPv4 address pool among the defaults",
      "engine_error",
      "network range",
    ],
    [
      "start the container x",
      "error creating overlay mount to /var/lib/docker/overlay2/abc/merged: too many levels",
      "engine_error",
      "(a file of the engine)",
    ],
  ])('in the operation "%s" is mapped to its own code: %s', (asked, text, code, part) => {
    const error = errorFromEngineText(text, asked, 500);
    expect(error.code).toBe(code);
    expect(error.message).toContain(part);
    expect(error.message).toContain(asked);
    expect(error.message).not.toContain("/var/lib");
  });

  it.each(["ECONNREFUSED", "ENOENT", "ECONNRESET", "EACCES", "ETIMEDOUT", "EPIPE", "EHOSTUNREACH"])(
    "%s is reported as an unreachable engine, without the path of the socket",
    (code) => {
      const failure = Object.assign(new Error(`connect ${code} /srv/secret/docker.sock`), { code });
      const error = toEngineError(failure, "list the containers");
      expect(error.code).toBe("engine_unreachable");
      expect(error.message).not.toContain("/srv");
      expect(error.hint).toBeTruthy();
    },
  );

  it("that a bug of Berth has caused is not reported as an unreachable engine", () => {
    expect(toEngineError(new TypeError("x is undefined"), "list the containers").code).toBe(
      "internal",
    );
  });
});

describe("the table of a container's sockets", () => {
  it("contains each listening port once, without the engine's DNS server", () => {
    const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   2: 0B00007F:9C40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   3: 0100007F:1F91 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 1 1
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 0 0 0`;
    expect(parseListening(table)).toEqual([80, 8080]);
    expect(parseListening("")).toEqual([]);
  });

  it("counts the connections to a port that are open or still send", () => {
    const states = ["01", "04", "08", "0A", "06", "09"].map(
      (state, index) =>
        `   ${index}: 0200000A:1F90 0100000A:C00${index} ${state} 00000000:00000000`,
    );
    const table = [...states, "   9: 0200000A:C001 0300000A:1F90 01 00000000:00000000"].join("\n");
    expect(countOpen(table, 8080)).toBe(3);
    expect(countOpen(table, 80)).toBe(0);
  });
});
