import { parseArgs } from "node:util";
import {
  getModelFile,
  type ModelOptions,
  type Preset,
  presets,
  writePresetModel,
} from "./preset-model.ts";

/**
 * A command line tool that creates a model: `npx tsx test/support/gguf/make-model.ts --preset tiny --out tiny.gguf`.
 */
const { values } = parseArgs({
  options: {
    preset: { type: "string", default: "tiny" },
    out: { type: "string" },
    seed: { type: "string" },
    name: { type: "string" },
    context: { type: "string" },
    vocabulary: { type: "string" },
    template: { type: "string" },
    "no-template": { type: "boolean", default: false },
    "ends-after": { type: "string" },
  },
});

const preset = presets.find((name) => name === values.preset);
if (preset === undefined) {
  process.stderr.write(`--preset is one of: ${presets.join(", ")}\n`);
  process.exitCode = 2;
} else {
  process.stdout.write(`${await make(preset)}\n`);
}

async function make(chosen: Preset): Promise<string> {
  const options: ModelOptions = {
    ...(values.seed !== undefined && { seed: Number(values.seed) }),
    ...(values.name !== undefined && { name: values.name }),
    ...(values.context !== undefined && { contextTokens: Number(values.context) }),
    ...(values.vocabulary !== undefined && { vocabularySize: Number(values.vocabulary) }),
    ...(values.template !== undefined && { template: values.template }),
    ...(values["no-template"] && { template: null }),
    ...(values["ends-after"] !== undefined && { endsAfter: Number(values["ends-after"]) }),
  };
  if (values.out === undefined) return getModelFile(chosen, options);
  await writePresetModel(values.out, chosen, options);
  return values.out;
}
