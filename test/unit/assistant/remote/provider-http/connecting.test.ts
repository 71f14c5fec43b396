import { once } from "node:events";
import { createServer } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { catchAssistantError } from "../../../../support/provider/catch-assistant-error.ts";
import { TestAuthority } from "../../../../support/provider/certificates.ts";
import { ProviderHarness } from "../../../../support/provider/provider-harness.ts";

const DAY_MS = 86_400_000;

it.each([
  ["is for another host name", { names: ["other.example"] }, "for another host name"],
  ["has expired", { validUntil: new Date(Date.now() - 1_000) }, "has expired"],
  [
    "is not valid yet",
    { validFrom: new Date(Date.now() + DAY_MS), validUntil: new Date(Date.now() + 2 * DAY_MS) },
    "not valid yet",
  ],
])("a certificate that %s makes the provider unreachable", async (_, options, why) => {
  const authority = await TestAuthority.create();
  const certificate = await authority.issue(options);
  await using harness = await ProviderHarness.start({ certificate, trusted: [authority.ca] });
  const error = await catchAssistantError(harness.open());

  expect(error).toMatchObject({ code: "unreachable" });
  expect(error.message).toContain(why);
  expect(harness.provider.requests).toHaveLength(0);
});

it("a self-signed certificate is refused, whatever the environment variables say", async () => {
  const authority = await TestAuthority.create();
  const certificate = await authority.issue();
  await using harness = await ProviderHarness.start({ certificate });
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());

  const error = await catchAssistantError(harness.open());
  expect(error).toMatchObject({ code: "unreachable" });
  expect(error.message).toContain("not signed by an authority");
  expect(harness.provider.requests).toHaveLength(0);
});

it("the TLS handshake contains the name that the certificate must have", async () => {
  const authority = await TestAuthority.create();
  const certificate = await authority.issue({ names: ["api.acme.example"] });
  const options = { certificate, trusted: [authority.ca] };
  await using named = await ProviderHarness.start({ ...options, host: "api.acme.example" });
  await using other = await ProviderHarness.start({ ...options, host: "api.other.example" });

  expect(await named.text()).toContain("[DONE]");
  expect((await catchAssistantError(other.open())).message).toContain("for another host name");
});

it("a client with TLS cannot use a server without TLS, and a client without TLS cannot use a server with TLS", async () => {
  await using plain = await ProviderHarness.start();
  await using secure = await ProviderHarness.start({ tls: true });
  const toPlain = await catchAssistantError(
    plain.open({ baseUrl: plain.provider.baseUrl.replace("http:", "https:") }),
  );
  const toSecure = await catchAssistantError(
    secure.open({ baseUrl: secure.provider.baseUrl.replace("https:", "http:") }),
  );

  expect(toPlain).toMatchObject({ code: "unreachable" });
  expect(toPlain.message).toContain("TLS");
  expect(["unreachable", "bad_response"]).toContain(toSecure.code);
  expect(plain.provider.requests).toHaveLength(0);
});

it("a refused connection to a provider and an unknown host name are reported", async () => {
  await using harness = await ProviderHarness.start({
    resolve: (host) =>
      host === "gone.example"
        ? Promise.reject(Object.assign(new Error("x"), { code: "ENOTFOUND" }))
        : Promise.resolve(["127.0.0.1"]),
  });
  const baseUrl = harness.provider.baseUrl;
  await harness.provider[Symbol.asyncDispose]();

  const refused = await catchAssistantError(harness.open({ baseUrl }));
  expect(refused).toMatchObject({ code: "unreachable" });
  expect(refused.message).toMatch(/cannot be reached at http:\/\/127.* the connection was refused/);
  const unknown = await catchAssistantError(harness.open({ baseUrl: "http://gone.example/v1" }));
  expect(unknown).toMatchObject({ code: "unreachable" });
  expect(unknown.message).toContain("gone.example was not found (ENOTFOUND)");
});

it("the next address is tried if an address refuses the connection", async () => {
  await using harness = await ProviderHarness.start({
    host: "both.example",
    resolve: async () => ["127.0.0.2", "127.0.0.1"],
  });

  expect(await harness.text()).toContain("[DONE]");
});

it("an error reports that the connection to a provider has ended before the answer", async () => {
  await using harness = await ProviderHarness.start();
  harness.provider.next({ type: "reset" });
  const error = await catchAssistantError(harness.open());

  expect(error).toMatchObject({ code: "unreachable" });
  expect(error.message).toContain("without an answer");
  expect(harness.provider.requests).toHaveLength(1);
});

it("no connection is made if the address class (public, private, loopback) of the host name has changed since the provider was added", async () => {
  let means = ["127.0.0.1"];
  await using harness = await ProviderHarness.start({
    host: "moving.example",
    resolve: async () => means,
  });
  // The name resolved to a public address when the provider was added, and now to loopback, where a server listens.
  const error = await catchAssistantError(harness.open({ addressClass: "public" }));
  expect(error).toMatchObject({ code: "unreachable" });
  expect(error.message).toContain("is now an address of this machine");
  // One address of another class is enough for the refusal, even if the name also has an address of the right class.
  means = ["8.8.8.8", "127.0.0.1"];
  expect((await catchAssistantError(harness.open({ addressClass: "public" }))).message).toContain(
    "both",
  );
  means = ["169.254.169.254"];
  expect((await catchAssistantError(harness.open())).message).toContain("link-local");

  expect(harness.provider.connectionsTotal).toBe(0);
});

it("the connection goes to the address that was checked, not to the result of another lookup", async () => {
  const answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2"]];
  let asked = 0;
  await using harness = await ProviderHarness.start({
    host: "flipping.example",
    resolve: async () => answers[asked++] ?? ["127.0.0.2"],
  });

  // A second lookup within the attempt would return an address that refuses connections.
  expect(await harness.text()).toContain("[DONE]");
  expect(asked).toBe(1);
});

it("the provider's host name is resolved again for each new connection, which is refused if the class of the address has changed", async () => {
  let means = ["127.0.0.1"];
  await using harness = await ProviderHarness.start({
    host: "moving.example",
    resolve: async () => means,
  });
  await harness.text();
  means = ["10.0.0.1"];
  harness.provider.dropConnections();
  await harness.provider.until(({ connections }) => connections === 0);

  expect(await catchAssistantError(harness.open())).toMatchObject({ code: "unreachable" });
  expect(harness.provider.requests).toHaveLength(1);
});

it.each([
  ["http://169.254.169.254/v1", "link-local"],
  ["http://[::ffff:169.254.169.254]/v1", "link-local"],
  ["http://[fd00:ec2::254]/v1", "metadata"],
  ["http://10.0.0.1/v1", "private network"],
])("an address without a name is checked too: %s", async (baseUrl, why) => {
  await using harness = await ProviderHarness.start();
  const error = await catchAssistantError(harness.open({ baseUrl }));

  expect(error).toMatchObject({ code: "unreachable" });
  expect(error.message).toContain(why);
});

it("no connection to Berth itself is ever made", async () => {
  const ports = new Set<number>();
  await using harness = await ProviderHarness.start({ ownPorts: () => ports });
  ports.add(harness.provider.port);

  expect((await catchAssistantError(harness.open())).message).toContain("Berth itself");
  expect(harness.provider.connectionsTotal).toBe(0);
});

it("the client stops waiting for a TLS handshake that never begins", async () => {
  const server = createServer(() => {}).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  await using harness = await ProviderHarness.start();
  const left = new AbortController();
  const baseUrl = `https://127.0.0.1:${port}`;

  expect(
    await catchAssistantError(harness.open({ baseUrl, limits: { headMs: 30 } })),
  ).toMatchObject({
    code: "timeout",
  });
  const waiting = harness.open({ baseUrl, signal: left.signal });
  const [socket] = await once(server, "connection");
  left.abort(new Error("gone"));
  await expect(waiting).rejects.toThrow("gone");
  // The client has closed its end of the connection, and the server then closes the other end.
  if (!socket.destroyed) await once(socket.resume(), "close");
  server.close();
  expect(harness.clock.pending).toBe(0);
});
