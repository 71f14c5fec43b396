import { describe, expect, test } from "vitest";
import { startInferenceHttp } from "../../support/inference-http-harness.ts";
import { otherUid, requestAsOtherUser } from "../../support/other-user-requests.ts";
import { createRecordingLogger, type LogEntry } from "../../support/recording-logger.ts";

const uid = process.getuid?.() ?? 0;
const ask = { messages: [{ role: "user", content: "hi" }] };
const path = "/v1/chat/completions";

describe("a port that belongs to one user", () => {
  test("refuses users other than its owner and root, unless the owner allows them", async () => {
    const lines: LogEntry[] = [];
    await using closed = await startInferenceHttp({
      access: { allowsOrigin: () => false, owner: { uid: 4321, servesOtherUsers: () => false } },
    });
    await using shared = await startInferenceHttp({
      logger: createRecordingLogger(lines),
      access: { allowsOrigin: () => false, owner: { uid: 4321, servesOtherUsers: () => true } },
    });
    const answers = await requestAsOtherUser(
      [closed.url, shared.url].flatMap((url) => [
        { url: `${url}/health` },
        { url: url + path, method: "POST", body: JSON.stringify(ask) },
        { url: url + path, method: "OPTIONS" },
      ]),
    );
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 403, 200, 200, 204]);
    for (const { body } of answers.slice(0, 3))
      expect(JSON.parse(body)).toMatchObject({
        error: { code: "forbidden", message: expect.stringContaining("serve_other_users: true") },
      });
    expect(closed.service.requests).toEqual([]);
    expect(shared.service.requests).toHaveLength(1);
    expect(lines.filter(({ fields }) => fields["method"] === "POST")).toMatchObject([
      { fields: { clientUid: otherUid } },
    ]);
  });

  test("serves the owner's programs, but refuses web pages, and requests whose Host header names another machine", async () => {
    await using harness = await startInferenceHttp({
      access: { allowsOrigin: () => false, owner: { uid, servesOtherUsers: () => false } },
    });
    const statuses = async (headers: Record<string, string>) =>
      (await harness.post(path, ask, headers)).status;
    expect(await statuses({})).toBe(200);
    expect(await statuses({ origin: "http://localhost:3000" })).toBe(403);
    expect((await fetch(`${harness.url}/nothing`)).status).toBe(404);
  });
});

describe("a request without an Origin header that a web page caused", () => {
  test.each([
    ["cross-site", 403],
    ["same-site", 403],
    ["cross-site, none", 403],
    ["same-origin", 200],
    ["none", 200],
  ])(
    "is answered only if its header Sec-Fetch-Site is same-origin or none: here it is %s",
    async (site, status) => {
      await using harness = await startInferenceHttp();
      for (const target of ["/v1/models", "/health"]) {
        const response = await fetch(`${harness.url}${target}`, {
          headers: { "sec-fetch-site": site },
        });
        expect(response.status).toBe(status);
      }
    },
  );
});

test("a web page with an allowed Origin may use the port and read the answers, even if its header Sec-Fetch-Site is cross-site", async () => {
  await using harness = await startInferenceHttp({
    access: { allowsOrigin: (origin) => origin === "app://obsidian.md" },
  });
  const post = (origin: string) =>
    harness.post(path, ask, { origin, "sec-fetch-site": "cross-site" });
  const response = await post("app://obsidian.md");
  expect(response.status).toBe(200);
  expect(response.headers.get("access-control-allow-origin")).toBe("app://obsidian.md");
  for (const other of ["app://obsidian.md.example", "app://obsidian", "http://localhost:3000"])
    expect((await post(other)).status).toBe(403);
});
