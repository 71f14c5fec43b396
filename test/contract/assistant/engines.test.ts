import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import { StubEngine } from "../../../src/assistant/inference/stub/stub-engine.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { ScriptedEngine } from "../../support/scripted-engine.ts";
import { engineContract } from "./engine-contract.ts";

const file = { id: "model", path: "/nowhere/model.gguf" };

engineContract("the stub", async () => ({
  engine: new StubEngine({ clock: systemClock }),
  name: "stub",
  file,
  embeddingFile: file,
  damagedFile: undefined,
  [Symbol.asyncDispose]: async () => {},
}));

const damagedFile = { id: "damaged", path: "/nowhere/damaged.gguf" };

engineContract("the scripted one", async () => ({
  engine: new ScriptedEngine({
    clock: systemClock,
    refuse: ({ id }) =>
      id === "damaged"
        ? new AssistantError("model_unusable", "The model damaged cannot be read; get it again.")
        : undefined,
  }),
  name: "scripted",
  file,
  embeddingFile: file,
  damagedFile,
  [Symbol.asyncDispose]: async () => {},
}));
