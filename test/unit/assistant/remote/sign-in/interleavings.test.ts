import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type BuiltInProvider, loginDetails } from "../../../../../src/assistant/remote/port.ts";
import { FakeOpenIdProvider } from "../../../../support/fake-openid-provider.ts";
import { OpenRouterSignInServer } from "../../../../support/openrouter-sign-in.ts";
import { SignInHarness, sendRawRequest } from "../../../../support/sign-in-harness.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

let openrouter: OpenRouterSignInServer;
let huggingface: FakeOpenIdProvider;

beforeAll(async () => {
  openrouter = await OpenRouterSignInServer.start();
  huggingface = await FakeOpenIdProvider.start();
});
afterAll(async () => {
  await openrouter[Symbol.asyncDispose]();
  await huggingface[Symbol.asyncDispose]();
});

const acts = ["begin", "return", "forge", "other host", "cancel", "time", "break", "mend"] as const;

const steps = fc.array(
  fc.record({
    act: fc.constantFrom<(typeof acts)[number]>(...acts, "begin", "begin", "return"),
    provider: fc.constantFrom<BuiltInProvider>("openrouter", "huggingface"),
    /** The sign-in URL that the step uses: 0 is the URL that a sign-in returned last, 1 the one before it. */
    which: fc.nat(2),
    /** The number of turns of the event loop between the start of this step and the start of the next one. */
    turns: fc.nat(6),
    /** True if the next step waits until this step has ended. */
    waits: fc.boolean(),
  }),
  { minLength: 1, maxLength: 14 },
);

it("each started sign-in completes exactly once, in any order of events", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      const clock = new VirtualClock(Date.now());
      const harness = new SignInHarness({ openrouter: openrouter.endpoints(), huggingface, clock });
      const urls: Record<BuiltInProvider, string[]> = { openrouter: [], huggingface: [] };
      const underway: Promise<unknown>[] = [];

      const run = async (step: (typeof script)[number]): Promise<void> => {
        const { act, provider, which } = step;
        if (act === "begin") {
          urls[provider].push(await harness.signIns.begin(provider));
        } else if (act === "cancel") harness.signIns.cancel(provider);
        else if (act === "time") await clock.advance(300_000);
        else if (act === "break")
          harness.beforeKeeping = () => nextTurn().then(() => Promise.reject(new Error("full")));
        else if (act === "mend") harness.beforeKeeping = () => nextTurn();
        else {
          const url = urls[provider].at(-1 - which);
          if (url === undefined) return;
          const server = provider === "openrouter" ? openrouter : huggingface;
          const back = await server.authorize(url);
          if (act === "forge" && provider === "openrouter") back.pathname += "x";
          if (act === "forge") back.searchParams.set("state", "x");
          await sendRawRequest(back, act === "other host" ? { host: "evil.example" } : {});
        }
      };

      for (const step of script) {
        // begin() rejects if its sign-in is superseded, and a callback request fails if the listener is closed.
        const running = run(step).catch(() => {});
        underway.push(running);
        if (step.waits) await running;
        for (let turn = 0; turn < step.turns; turn += 1) await nextTurn();
      }
      await harness[Symbol.asyncDispose]();
      await Promise.all(underway);

      for (const provider of ["openrouter", "huggingface"] as const) {
        const ends = harness.ends.filter((end) => end.provider === provider);
        expect(ends).toHaveLength(urls[provider].length);
      }
      expect(loginDetails).toEqual(expect.arrayContaining([...new Set(harness.details)]));
      expect(harness.details.filter((detail) => detail === "ok")).toHaveLength(harness.kept.length);
      expect(harness.signIns.pending()).toEqual([]);
    }),
    { numRuns: 50 },
  );
}, 60_000);
