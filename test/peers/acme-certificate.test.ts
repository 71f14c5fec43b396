import { execFile, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";

/**
 * A public name gets its certificate from an authority over ACME. The authority is a second Caddy, which answers under
 * the name of Let's Encrypt. It and Berth have a network each, so that both can use the ports 80 and 443.
 */

const run = promisify(execFile);
const berthProgram = join(import.meta.dirname, "../../bin/berth");
const AUTHORITY = "acme-v02.api.letsencrypt.org";
const API = "berth.example.org";
const addresses = { berth: "10.98.71.1", authority: "10.98.71.2" };

interface Network {
  readonly name: string;
  /**
   * Runs a command in the given network namespace, with the test's host names and trusted authorities. Resolves to its
   * output.
   */
  exec(command: readonly string[]): Promise<string>;
  start(command: readonly string[]): void;
}

const getNetworkName = (role: string) => `${role}-${process.pid}`;

/** Creates two connected networks, and removes them and their processes when the test has finished. */
async function createNetworks(folder: string): Promise<Record<"berth" | "authority", Network>> {
  const hosts = join(folder, "hosts");
  writeFileSync(
    hosts,
    `127.0.0.1 localhost\n${addresses.berth} ${API}\n${addresses.authority} ${AUTHORITY}\n`,
  );
  onTestFinished(async () => {
    for (const role of ["berth", "authority"]) {
      const { stdout } = await run("ip", ["netns", "pids", getNetworkName(role)]).catch(() => ({
        stdout: "",
      }));
      for (const pid of stdout.split("\n").filter(Boolean)) process.kill(Number(pid), "SIGKILL");
      await run("ip", ["netns", "del", getNetworkName(role)]).catch(() => {});
    }
  });
  const create = async (role: "berth" | "authority"): Promise<Network> => {
    const own = getNetworkName(role);
    await run("ip", ["netns", "add", own]);
    await run("ip", ["-n", own, "link", "set", "lo", "up"]);
    const script = `mount --bind ${hosts} /etc/hosts
if [ -e ${folder}/trusted ]; then mount --bind ${folder}/trusted /etc/ssl/certs/ca-certificates.crt; fi
exec "$@"`;
    const inside = (command: readonly string[]) => [
      "netns",
      "exec",
      own,
      "sh",
      "-c",
      script,
      "sh",
      ...command,
    ];
    return {
      name: own,
      exec: async (command) => (await run("ip", inside(command))).stdout,
      start: (command) => {
        const env = { PATH: process.env["PATH"], HOME: folder };
        spawn("ip", inside(command), { stdio: "ignore", env });
      },
    };
  };
  const berth = await create("berth");
  const authority = await create("authority");
  await run("ip", [
    "-n",
    berth.name,
    "link",
    "add",
    "link0",
    "type",
    "veth",
    "peer",
    "name",
    "link0",
    "netns",
    authority.name,
  ]);
  for (const [network, address] of [
    [berth, addresses.berth],
    [authority, addresses.authority],
  ] as const) {
    await run("ip", ["-n", network.name, "addr", "add", `${address}/24`, "dev", "link0"]);
    await run("ip", ["-n", network.name, "link", "set", "link0", "up"]);
  }
  return { berth, authority };
}

/**
 * The configuration of a Caddy that serves as certificate authority, with an ACME directory at the path that Let's
 * Encrypt uses.
 */
const authorityConfig = (folder: string) => ({
  admin: { disabled: true },
  storage: { module: "file_system", root: join(folder, "authority") },
  apps: {
    pki: { certificate_authorities: { test: { name: "Test authority", install_trust: false } } },
    tls: { automation: { policies: [{ issuers: [{ module: "internal", ca: "test" }] }] } },
    http: {
      servers: {
        authority: {
          listen: [":443"],
          automatic_https: { disable_redirects: true },
          routes: [
            {
              match: [{ host: [AUTHORITY] }],
              handle: [
                {
                  handler: "rewrite",
                  uri_substring: [{ find: "/directory", replace: "/acme/test/directory" }],
                },
                { handler: "acme_server", ca: "test" },
              ],
            },
          ],
        },
      },
    },
  },
});

test("the API gets a certificate from an authority over ACME, and answers over HTTPS and HTTP/2", async () => {
  const folder = temporaryFolder("acme");
  const { berth, authority } = await createNetworks(folder);
  writeFileSync(join(folder, "authority.json"), JSON.stringify(authorityConfig(folder)));
  authority.start(["caddy", "run", "--config", join(folder, "authority.json")]);
  const root = join(folder, "authority/pki/authorities/test/root.crt");
  await expect.poll(() => readFileSync(root, "utf8"), { timeout: 30_000 }).toContain("CERTIFICATE");
  const directory = ["curl", "-s", "--cacert", root, `https://${AUTHORITY}/directory`];
  // Without an answer to its first request, Caddy would try again only after a minute.
  const askAuthority = () => berth.exec(directory).catch(String);
  await expect.poll(askAuthority, { timeout: 30_000 }).toContain("new-order");
  const system = readFileSync("/etc/ssl/certs/ca-certificates.crt", "utf8");
  writeFileSync(join(folder, "trusted"), `${system}\n${readFileSync(root, "utf8")}`);

  mkdirSync(join(folder, "specs"));
  berth.start([
    process.execPath,
    berthProgram,
    "up",
    "--ingress=process",
    "--assistant=off",
    `--data-dir=${folder}/data`,
    `--specs-dir=${folder}/specs`,
    `--api-domain=${API}`,
    "--docker-host=unix:///nowhere/docker.sock",
    "--http-port=80",
    "--https-port=443",
    "--listen=127.0.0.1:7776",
    "--companion=off",
    "--no-summary",
  ]);
  const format = "%{http_code} %{http_version} %{ssl_verify_result}";
  const ask = (url: string) =>
    authority.exec(["curl", "-s", "-o", "/dev/null", "-w", format, url]).catch(String);
  await expect.poll(() => ask(`https://${API}/api/health`), { timeout: 60_000 }).toBe("200 2 0");
  await expect.poll(() => ask(`http://${API}/api/health`), { timeout: 30_000 }).toBe("308 1.1 0");
});
