import { afterAll, beforeAll, expect, it } from "vitest";
import { CompanionProcess } from "../support/companion-process.ts";
import { freePorts } from "../support/free-port.ts";
import { TestSessionBus } from "../support/test-session-bus.ts";

/** Commands that need a local model, with a companion whose system instance does not run. */

let bus: TestSessionBus;
let companion: CompanionProcess;
let upstream: string;
beforeAll(async () => {
  const [port = 0] = await freePorts(1);
  upstream = `http://127.0.0.1:${port}`;
  bus = await TestSessionBus.start();
  companion = await CompanionProcess.start({ bus, flags: ["--upstream", upstream] });
});
afterAll(async () => {
  await companion[Symbol.asyncDispose]();
  await bus[Symbol.asyncDispose]();
});

it.each([
  [1, ["chat", "--user", "Hello there"]],
  [1, ["chat", "--user", "-m", "small", "Hello"]],
  [4, ["ask", "Hello"]],
  [1, ["chat", "--assistant-url", "COMPANION", "Hello there"]],
])(
  "a command that needs a local model ends with %i, and reports the reason and what to do: berth %j",
  async (expected, words) => {
    const args = words.map((word) => (word === "COMPANION" ? companion.ready.url : word));
    const { code, stdout, stderr } = await companion.berth(args);
    expect([code, stdout]).toEqual([expected, ""]);
    expect(stderr).toContain(`the system instance does not answer at ${upstream}`);
    expect(stderr).toContain("`berth up`");
  },
);

it("berth doctor warns that the companion has no local models", async () => {
  const { stdout } = await companion.berth(["doctor", "-o", "json"]);
  const { checks }: { checks: readonly object[] } = JSON.parse(stdout);
  expect(checks).toContainEqual({
    check: "companion",
    state: "warn",
    message: expect.stringContaining(
      `no local models: the system instance does not answer at ${upstream}`,
    ),
  });
});
