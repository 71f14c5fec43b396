import { expect, it } from "vitest";
import { resolveAssistantDataDir } from "../../../src/base/assistant-paths.ts";

const base = { workingDirectory: "/work", homeDirectory: "/home/me", userId: 1000 };

it.each([
  ["a flag", { flag: "here", environment: { BERTH_ASSISTANT_DATA_DIR: "/there" } }, "/work/here"],
  ["a flag below home", { flag: "~/here", environment: {} }, "/home/me/here"],
  ["the variable", { environment: { BERTH_ASSISTANT_DATA_DIR: "/there" } }, "/there"],
  [
    "an empty variable",
    { environment: { BERTH_ASSISTANT_DATA_DIR: "" } },
    "/home/me/.local/share/berth/assistant",
  ],
  ["nothing", { environment: {} }, "/home/me/.local/share/berth/assistant"],
  ["XDG_DATA_HOME", { environment: { XDG_DATA_HOME: "/data" } }, "/data/berth/assistant"],
  [
    "a relative XDG_DATA_HOME",
    { environment: { XDG_DATA_HOME: "data" } },
    "/home/me/.local/share/berth/assistant",
  ],
  ["root", { environment: { XDG_DATA_HOME: "/data" }, userId: 0 }, "/var/lib/berth/assistant"],
])("the assistant's data directory is derived from %s", (_, input, expected) => {
  expect(resolveAssistantDataDir({ ...base, ...input })).toBe(expected);
});
