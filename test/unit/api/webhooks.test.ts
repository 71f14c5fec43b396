import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { openTestApi, readErrorBody, type TestApi } from "../../support/api-harness.ts";
import { WAIT_OPTIONS } from "../../support/wait-limits.ts";
import { WebhookReceiver } from "../../support/webhook-receiver.ts";

let api: TestApi;
beforeEach(async () => {
  api = await openTestApi();
});
afterEach(() => api[Symbol.asyncDispose]());

const post = (url: string, payload?: object) =>
  api.request({ method: "POST", url, ...(payload === undefined ? {} : { payload }) });
const get = (url: string) => api.request({ method: "GET", url });

it("the API of webhooks creates a webhook, and shows a generated secret only once", async () => {
  const made = await post("/api/webhooks", { url: "https://a.example/x", events: ["failed"] });
  expect(made.statusCode).toBe(201);
  const { id, secret, ...rest } = made.json();
  expect(made.headers["cache-control"]).toBe("no-store");
  expect(secret).toMatch(/^[0-9a-f]{64}$/);
  expect(rest).toEqual({
    url: "https://a.example/x",
    events: ["failed"],
    apps: [],
    created_at: "2030-01-01T00:00:00.000Z",
  });
  const shown = { id, ...rest };
  expect((await get(`/api/webhooks/${id}`)).json()).toEqual(shown);
  expect((await get("/api/webhooks")).json()).toEqual({ webhooks: [shown], total: 1 });
  expect((await get("/api/audit")).body).not.toContain(secret);
  expect(api.store.webhooks.getSecret(id)).toBe(secret);
});

it("the API of webhooks never shows a given secret", async () => {
  const secret = "a secret of theirs";
  const made = await post("/api/webhooks", { url: "http://10.0.0.5/", secret });
  expect(made.json()).not.toHaveProperty("secret");
  expect(api.store.webhooks.getSecret(made.json().id)).toBe(secret);
});

it("the API of webhooks reports the issues of an invalid webhook", async () => {
  for (const [payload, why] of [
    [{}, "url"],
    [{ url: "nowhere" }, "url: expected a URL with http or https, found"],
    [{ url: "http://169.254.169.254/" }, "machine's credentials"],
    [{ url: "https://a.example/", events: ["exploded"] }, "events"],
    [{ url: "https://a.example/", apps: ["Not A Name"] }, "apps"],
    [{ url: "https://a.example/", secret: "short" }, "secret"],
    [{ url: "https://a.example/", colour: "red" }, "colour"],
  ] as const) {
    const answer = await post("/api/webhooks", payload);
    expect({ payload, status: answer.statusCode }).toEqual({ payload, status: 400 });
    expect(readErrorBody(answer)).toContain(why);
  }
  expect(api.store.webhooks.list()).toEqual([]);
});

it("the API of webhooks tests a webhook, lists and repeats its deliveries, and deletes it", async () => {
  await using receiver = await WebhookReceiver.start();
  receiver.script.push(410);
  const { id } = (await post("/api/webhooks", { url: receiver.url })).json();
  const queued = await post(`/api/webhooks/${id}/test`);
  expect(queued.statusCode).toBe(202);
  expect(queued.json()).toMatchObject({ event: "test", state: "pending", attempts: 0 });
  const deliveries = async () => (await get(`/api/webhooks/${id}/deliveries`)).json();
  await vi.waitFor(
    async () => expect((await deliveries()).deliveries[0].attempts).toBe(1),
    WAIT_OPTIONS,
  );
  expect(await deliveries()).toEqual({
    total: 1,
    deliveries: [
      {
        id: queued.json().id,
        event: "test",
        app: null,
        state: "failed",
        attempts: 1,
        status: 410,
        message: "answered 410",
        next_attempt_at: null,
        created_at: "2030-01-01T00:00:00.000Z",
        finished_at: "2030-01-01T00:00:00.000Z",
      },
    ],
  });
  const again = await post(`/api/webhooks/${id}/deliveries/${queued.json().id}/redeliver`);
  expect(again.statusCode).toBe(202);
  await vi.waitFor(
    async () => expect((await deliveries()).deliveries[0].state).toBe("delivered"),
    WAIT_OPTIONS,
  );
  expect((await api.request({ method: "DELETE", url: `/api/webhooks/${id}` })).statusCode).toBe(
    204,
  );
  expect((await get("/api/webhooks")).json().total).toBe(0);
  const audit = (await get("/api/audit")).json().entries;
  expect(audit.map(({ action, name }: { action: string; name: string }) => [action, name])).toEqual(
    ["webhook_delete", "webhook_redeliver", "webhook_test", "webhook_create"].map((action) => [
      action,
      id,
    ]),
  );
});

it("the API of webhooks requires the scope admin, and returns 404 for unknown ids", async () => {
  const { id } = (await post("/api/webhooks", { url: "https://a.example/" })).json();
  const headers = { authorization: `Bearer ${api.token("write")}` };
  for (const [method, url] of [
    ["GET", "/api/webhooks"],
    ["POST", "/api/webhooks"],
    ["GET", `/api/webhooks/${id}`],
    ["GET", `/api/webhooks/${id}/deliveries`],
    ["POST", `/api/webhooks/${id}/test`],
    ["DELETE", `/api/webhooks/${id}`],
  ] as const)
    expect((await api.request({ method, url, headers })).statusCode).toBe(403);
  for (const [method, url] of [
    ["GET", "/api/webhooks/none"],
    ["DELETE", "/api/webhooks/none"],
    ["GET", "/api/webhooks/none/deliveries"],
    ["POST", "/api/webhooks/none/test"],
    ["POST", `/api/webhooks/${id}/deliveries/none/redeliver`],
  ] as const) {
    const answer = await api.request({ method, url });
    expect({ url, status: answer.statusCode }).toEqual({ url, status: 404 });
  }
});
