import type { ContainerInspectInfo } from "dockerode";
import { describe, expect, it } from "vitest";
import { findDifferences } from "../../../../src/controller/container-differences.ts";
import { toObservedContainer } from "../../../../src/controller/runtime/docker-observe.ts";
import { toSettings } from "../../../../src/controller/runtime/docker-settings.ts";
import type { ContainerSpec } from "../../../../src/controller/runtime/port.ts";
import { NO_DEFAULTS } from "../../../support/fake-settings.ts";

/**
 * Inspection reports of engine versions that the tests do not run. The versions differ in the fields that they omit,
 * and in empty values.
 */

const spec: ContainerSpec = {
  name: "web",
  image: "web:1",
  imageId: "sha256:1",
  labels: {},
  env: ["A=1"],
  network: "net",
  aliases: ["web"],
  mounts: [{ type: "bind", hostPath: "/home/me", path: "/data", readOnly: true }],
  publish: [{ containerPort: 80, protocol: "tcp", hostAddress: "", hostPort: 0 }],
  stopGraceMs: 1_000,
};

const bind = { Type: "bind", Destination: "/data", RW: false, Mode: "" };
const requested = { Type: "bind", Source: "/home/me", Target: "/data", ReadOnly: true };

const isInspection = (value: object): value is ContainerInspectInfo => "State" in value;

/** Returns the differences between `spec` and a container that has the host settings `host`. */
function differencesWith(host: object, source = "/home/me", aliases: unknown = ["web"]) {
  const inspected = {
    Id: "a".repeat(64),
    Name: "/web",
    Image: "sha256:1",
    Config: { Image: "sha256:1", Env: ["A=1"], Labels: {} },
    State: { Status: "running", Error: "" },
    Mounts: [{ ...bind, Source: source }],
    NetworkSettings: { Networks: { net: { Aliases: aliases } } },
    HostConfig: {
      NetworkMode: "net",
      Mounts: [requested],
      PortBindings: { "80/tcp": [{ HostIp: "", HostPort: "0" }] },
      ...host,
    },
  };
  if (!isInspection(inspected)) throw new Error("this is no inspection");
  const settings = toSettings(inspected, NO_DEFAULTS);
  return findDifferences(toObservedContainer(inspected, undefined, settings), spec);
}

describe("a container that Berth has created", () => {
  it("does not differ from its spec if the engine omits settings that are not set, or reports them as empty", () => {
    expect(differencesWith({})).toEqual([]);
    const empty = {
      Privileged: false,
      CapAdd: null,
      CapDrop: [],
      SecurityOpt: null,
      Devices: [],
      PidMode: "",
      IpcMode: "private",
      UTSMode: "",
      UsernsMode: "",
      CgroupnsMode: "private",
      Tmpfs: {},
      Sysctls: null,
      Dns: [],
      MaskedPaths: ["/proc/kcore"],
      ReadonlyPaths: ["/proc/bus"],
      RestartPolicy: { Name: "no", MaximumRetryCount: 0 },
      PidsLimit: -1,
      ExtraHosts: ["host.docker.internal:host-gateway"],
    };
    expect(differencesWith(empty)).toEqual([]);
  });

  it("does not differ from its spec if the engine runs in a virtual machine with other paths", () => {
    expect(differencesWith({}, "/host_mnt/home/me")).toEqual([]);
  });

  it("does not differ from its spec if the engine has chosen ports, or adds a short id to the aliases", () => {
    const bindings = { "80/tcp": [{ HostIp: "0.0.0.0", HostPort: "49153" }] };
    expect(differencesWith({ PortBindings: bindings })).toEqual([]);
    expect(differencesWith({}, undefined, ["web", "0123456789ab"])).toEqual([]);
  });
});

describe("a container of another program", () => {
  it.each([
    ["Privileged", { Privileged: true }],
    ["CapAdd", { CapAdd: ["SYS_ADMIN"] }],
    ["Devices", { Devices: [{ PathOnHost: "/dev/mem" }] }],
    ["PidMode", { PidMode: "host" }],
    ["IpcMode", { IpcMode: "container:abc" }],
    ["UsernsMode", { UsernsMode: "host" }],
    ["VolumesFrom", { VolumesFrom: ["other"] }],
    ["MaskedPaths", { MaskedPaths: [] }],
    ["RestartPolicy", { RestartPolicy: { Name: "unless-stopped" } }],
    ["ExtraHosts", { ExtraHosts: ["example.org:127.0.0.1"] }],
    ["networks", { NetworkMode: "host" }],
    ["volumes", { Mounts: [{ ...requested, Source: "/" }] }],
  ])("differs in %s", (name, host) => {
    expect(differencesWith(host)).toEqual([name]);
  });
});
