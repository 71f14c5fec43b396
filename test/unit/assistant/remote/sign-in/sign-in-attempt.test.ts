import { expect, it } from "vitest";
import type { LoginDetail } from "../../../../../src/assistant/remote/port.ts";
import { SignInAttempt } from "../../../../../src/assistant/remote/sign-in/sign-in-attempt.ts";
import type { StartedSignIn } from "../../../../../src/assistant/remote/sign-in/sign-in-protocol.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const started: StartedSignIn = {
  authorizeUrl: "https://provider.example/",
  isCallback: () => false,
  redeem: () => Promise.reject(new Error("nobody comes back")),
};

it.each([0, 1, 2, 3, 4, 5, 6, 7, 8])(
  "a sign-in that is superseded %i microtasks after its URL was available either reports its end or makes open() reject",
  async (steps) => {
    const ends: LoginDetail[] = [];
    const attempt: SignInAttempt = new SignInAttempt({
      protocol: {
        start: () => {
          let rest = steps;
          const endSoon = () => {
            rest -= 1;
            if (rest >= 0) queueMicrotask(endSoon);
            else attempt.end("superseded");
          };
          queueMicrotask(endSoon);
          return Promise.resolve(started);
        },
        refresh: () => Promise.reject(new Error("nothing to renew")),
        revoke: () => Promise.resolve(),
      },
      clock: new VirtualClock(),
      keep: () => Promise.resolve(),
      discard: () => {},
      ended: (detail) => ends.push(detail),
    });
    const url = await attempt.open(Promise.resolve()).catch(() => undefined);
    await attempt[Symbol.asyncDispose]();
    expect(ends).toEqual(url === undefined ? [] : ["superseded"]);
    expect(attempt.isPending).toBe(false);
  },
);
