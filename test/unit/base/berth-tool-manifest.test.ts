import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { berthTools } from "../../../src/base/berth-tool-manifest.ts";

test("the argument schemas of Berth's tools are valid JSON Schema 2020-12", () => {
  const ajv = new Ajv2020();
  for (const [name, { input_schema }] of Object.entries(berthTools)) {
    expect(ajv.validateSchema(input_schema), `the schema of ${name}`).toBe(true);
  }
});
