import { Agent } from "undici";
import { expect, it, onTestFinished } from "vitest";
import { SignInHttpClient } from "../../../../../src/assistant/remote/sign-in/sign-in-http-client.ts";

const here = ["http://127.0.0.1:8080/token", "http://localhost/token", "http://[::1]/token"];

it.each([
  [false, ["https://example.com/token"], ["http://example.com/token", ...here]],
  [true, ["https://example.com/token", ...here], ["http://example.com/token", "http://10.0.0.1/"]],
])(
  "URLs without https are refused, except those of this machine if they are allowed: %j",
  async (isLoopbackAllowed, allowed, refused) => {
    const dispatcher = new Agent();
    onTestFinished(() => dispatcher.destroy());
    const requests = new SignInHttpClient({ dispatcher, limitMs: 1_000, isLoopbackAllowed });
    const others = [
      "https://user@example.com/",
      "https://:pw@example.com/",
      "file:///etc",
      "",
      "x",
    ];
    for (const address of allowed)
      expect([address, requests.isAllowed(address)]).toEqual([address, true]);
    for (const address of [...refused, ...others]) {
      expect([address, requests.isAllowed(address)]).toEqual([address, false]);
      await expect(
        requests.send(address, { method: "POST", headers: {}, body: "code" }),
      ).rejects.toMatchObject({ code: "bad_response" });
    }
  },
);
