import type { Environment } from "../base/process-environment.ts";
import { findNearest } from "../base/spelling-suggestions.ts";
import { assistantSettings } from "./assistant-settings.ts";
import { secretSettings, serverSettingList } from "./server-settings.ts";

/**
 * Names of variables that are not settings of the server: those of the command line, and those of the assistant that
 * the server starts.
 */
const otherEnvironmentVariables: readonly string[] = [
  "BERTH_CONFIG",
  // The variable for the folder in which bin/berth stores its own copy of Node.js (scripts/pinned-node.cjs).
  "BERTH_NODE_DIR",
  "BERTH_URL",
  "BERTH_TOKEN",
  ...Object.values(assistantSettings).map(({ variable }) => variable),
];

/**
 * Returns warnings about environment variables that look like misspelled settings of Berth. Other unknown variables
 * with the prefix are ignored, because they may belong to other programs.
 */
export function warnOfMisspelledVariables(environment: Environment): string[] {
  const known: readonly string[] = [
    ...serverSettingList.map((setting) => setting.variable),
    ...secretSettings.map((secret) => secret.variable),
    ...otherEnvironmentVariables,
  ];
  const prefix = "BERTH_";
  // Names are compared without the common prefix, which would make any two names similar.
  const endings = known.flatMap((name) =>
    name.startsWith(prefix) ? [name.slice(prefix.length)] : [],
  );
  return Object.keys(environment)
    .filter((name) => name.startsWith(prefix) && !known.includes(name))
    .flatMap((name) => {
      const meant = findNearest(name.slice(prefix.length), endings);
      return meant ? [`${name} is not a variable of Berth; did you mean ${prefix}${meant}?`] : [];
    });
}
