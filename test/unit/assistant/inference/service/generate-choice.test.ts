import { expect, test } from "vitest";
import {
  collect,
  createServiceHarness,
  plainRequest,
} from "../../../../support/service-harness.ts";

const never = new AbortController().signal;

/** A fake schema compiler, which returns for every schema a grammar that allows only the answer `"good"`. */
const schemas = {
  compileLayout: async () => ({ gbnf: 'root ::= "\\"good\\""', example: '"good"' }),
  validate: async () => [],
};

test("an answer with a schema fails if a stop text has cut off its document, and the error explains this", async () => {
  await using harness = await createServiceHarness({ schemas });
  const request = {
    ...plainRequest,
    guide: { kind: "json_schema", name: "g", schema: {}, strict: true },
    isStreamed: false,
  } as const;
  expect(await collect(harness.service.generate(request, never))).not.toEqual([]);
  await expect(
    collect(harness.service.generate({ ...request, stop: ["oo"] }, never)),
  ).rejects.toMatchObject({
    code: "invalid_output",
    message: expect.stringContaining("leave stop out"),
  });
});
