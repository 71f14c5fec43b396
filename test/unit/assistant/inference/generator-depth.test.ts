import { expect, test } from "vitest";
import { RoutedInference } from "../../../../src/assistant/inference/routing/routed-inference.ts";
import type {
  GenerateRequest,
  InferenceService,
} from "../../../../src/assistant/inference/service-port.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import { answerWith, chatRequest, createEgressHarness } from "../../../support/egress-harness.ts";
import { collect, createServiceHarness, plainRequest } from "../../../support/service-harness.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/**
 * Returns the number of async generators that a token passes. Each generator awaits the `next` of the generator below
 * it, so this number is the maximum number of pending `next` calls. In the harness, the connection to a provider is an
 * async generator, like the real connection, but the engine is not.
 */
async function measureDepth(service: InferenceService, request: GenerateRequest): Promise<number> {
  // oxlint-disable-next-line require-yield -- only its prototype is needed
  const prototype: AsyncGenerator = Object.getPrototypeOf(
    Object.getPrototypeOf((async function* () {})()),
  );
  const next: AsyncGenerator["next"] = Reflect.get(prototype, "next");
  let pending = 0;
  let depth = 0;
  prototype.next = async function countNext(...args) {
    pending += 1;
    depth = Math.max(depth, pending);
    try {
      return await next.apply(this, args);
    } finally {
      pending -= 1;
    }
  };
  try {
    const events = await collect(service.generate(request, new AbortController().signal));
    expect(events.filter(({ type }) => type === "text").length).toBeGreaterThan(1);
    return depth;
  } finally {
    prototype.next = next;
  }
}

test("a token of a local model passes three async generators between the engine and the caller", async () => {
  await using harness = await createServiceHarness();
  expect(await measureDepth(harness.service, plainRequest)).toBe(3);
});

test("a token of a provider's model passes five async generators on its way to the caller", async () => {
  await using local = await createServiceHarness();
  const { http, service } = createEgressHarness();
  http.scripts = [answerWith("one", "two")];
  const routed = new RoutedInference({
    local: local.service,
    remote: service,
    aliases: () => new Map(),
    logger: silentLogger,
    clock: new VirtualClock(),
  });
  expect(await measureDepth(routed, chatRequest)).toBe(5);
});
