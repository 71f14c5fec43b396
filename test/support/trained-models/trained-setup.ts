import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { type TrainedModel, trainedModels, trainedModelsDir } from "./catalog.ts";

declare module "vitest" {
  export interface ProvidedContext {
    /** The paths of the trained models. */
    trainedModels: Readonly<Record<TrainedModel["name"], string>>;
  }
}

/** Gives the tests the paths of the trained models. Without the models the tests fail; they are never skipped. */
export default function setup(project: TestProject): void {
  const dir = trainedModelsDir();
  const path = (name: TrainedModel["name"]): string => {
    const model = trainedModels.find((one) => one.name === name);
    const file = join(dir, model?.fileName ?? name);
    if (!existsSync(file))
      throw new Error(
        `the tests with trained models cannot run: ${file} is missing; fetch it with: npm run models:test`,
      );
    return file;
  };
  project.provide("trainedModels", {
    smollm2: path("smollm2"),
    gemma3: path("gemma3"),
    minilm: path("minilm"),
  });
}
