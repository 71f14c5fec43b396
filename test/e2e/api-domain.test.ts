import { join } from "node:path";
import { expect, test } from "vitest";
import { BerthProcess, runBerth } from "../support/berth-process.ts";
import { freePorts } from "../support/free-port.ts";
import { WEB } from "../support/images.ts";

test("the command line of another machine uses the API through the ingress", async () => {
  const [port = 0] = await freePorts(1);
  const url = `https://localhost:${port}`;
  const env = { BERTH_PASSWORD: "correct horse battery" };
  const flags = ["--api-domain=localhost", `--https-port=${port}`];
  await using berth = await BerthProcess.open({ ingress: "process", flags, env });
  expect(berth.ready).toMatchObject({ api_url: url });
  await berth.until("the ingress serves the API", async () => {
    const { ingress } = await berth.client.system.info();
    return ingress.ready && ingress.api_problem === null;
  });
  const ca = join(berth.dataDir, "ingress/storage/pki/authorities/local/root.crt");
  const home = join(berth.root, "elsewhere");
  /** Runs a verb as a user of another machine, who has no data directory. */
  const run = async (verb: readonly string[], input?: string) => {
    const environment = { PATH: process.env["PATH"] ?? "", HOME: home, NO_COLOR: "1" };
    const trusted = { ...environment, NODE_EXTRA_CA_CERTS: ca };
    const { code, stdout, stderr } = await runBerth(verb, { cwd: berth.root, env: trusted, input });
    expect([code, stderr]).toEqual([0, expect.any(String)]);
    return stdout;
  };

  const stranger = await berth.cli(["--url", url, "get", "apps"]);
  expect([stranger.code === 0, stranger.stderr]).toEqual([
    false,
    expect.stringContaining("NODE_EXTRA_CA_CERTS=root.crt"),
  ]);
  expect(await run(["login", url, "--password-stdin"], env.BERTH_PASSWORD)).toContain(
    `logged in to ${url}`,
  );
  const status = await run(["status"]);
  expect(status).toContain(`Server:     ${url}, Berth`);
  expect(status).toContain(`API at:     ${url}\n`);
  expect(await run(["config"])).toMatch(/api_domain +localhost/);
  await run(["create", "web", "--image", WEB, "--port", "8080"]);
  expect(await run(["get", "apps"])).toContain("running");
  expect((await berth.cli(["doctor"])).stdout).toContain(url);

  // On the server's own machine, the command line finds the local server, which needs no login, at the same URL.
  const local = await berth.cli(["--url", url, "get", "apps", "-o", "name"], {
    env: { NODE_EXTRA_CA_CERTS: ca },
  });
  expect([local.code, local.stdout.trim()]).toEqual([0, "app/web"]);

  const taken = await berth.cli([
    "create",
    "thief",
    "--image",
    WEB,
    "--port=80",
    "--domain=localhost",
  ]);
  expect([taken.code === 0, taken.stderr]).toEqual([
    false,
    expect.stringContaining("localhost is the address of Berth's own API"),
  ]);
});
