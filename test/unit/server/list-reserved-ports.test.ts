import { expect, it } from "vitest";
import { listReservedPorts } from "../../../src/server/list-reserved-ports.ts";

const config = {
  listen: { host: "0.0.0.0", port: 7776 },
  httpPort: 80,
  httpsPort: 443,
  assistant: { port: 7777, dataDir: "/var/lib/assistant", memoryBytesMax: undefined },
  companion: { port: 7778 },
};
const list = (...[settings, parts]: Parameters<typeof listReservedPorts>) =>
  listReservedPorts(settings, parts).map(({ port, address }) => `${address ?? "*"}:${port}`);

it("every part of the server that listens reserves its port", () => {
  expect(list(config, { ingress: "process", hasCompanion: true })).toEqual([
    "0.0.0.0:7776",
    "*:80",
    "*:443",
    "127.0.0.1:7777",
    "127.0.0.1:7778",
  ]);
});

it("a part that is off, or whose port is set to 0, reserves no port", () => {
  const free = {
    ...config,
    listen: { host: "127.0.0.1", port: 0 },
    httpPort: undefined,
    assistant: undefined,
  };
  expect(list(free, { ingress: "container", hasCompanion: false })).toEqual(["*:443"]);
  expect(list(config, { ingress: "off", hasCompanion: false })).toEqual([
    "0.0.0.0:7776",
    "127.0.0.1:7777",
  ]);
});
