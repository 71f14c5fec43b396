import type { SpecIssue } from "../base/errors.ts";
import { formatSuggestion } from "../base/spelling-suggestions.ts";
import { AppSpec } from "./app-spec.ts";
import { createIssueList } from "./field-checks.ts";
import type { SecretSpec } from "./secret-spec.ts";
import type { TemplateSpec } from "./template-spec.ts";

/**
 * Returns an issue for each missing registry credential. Without this check, the user would notice the mistake
 * only when the first pull fails.
 */
export function checkSecretSpec(spec: SecretSpec): SpecIssue[] {
  const { issues, add } = createIssueList();
  if (spec.type === "registry") {
    for (const key of ["server", "username", "password"]) {
      if (!Object.hasOwn(spec.data, key)) {
        add(
          ["spec", "data"],
          `missing key "${key}": a registry Secret contains server, username and password`,
        );
      }
    }
  }
  return issues;
}

export function checkTemplateSpec(spec: TemplateSpec): SpecIssue[] {
  const { issues, add } = createIssueList();
  const names = new Set<string>();
  for (const [index, parameter] of (spec.parameters ?? []).entries()) {
    const at = ["spec", "parameters", String(index)];
    if (parameter.name === "name") {
      add([...at, "name"], '"name" is reserved for the new app\'s name and cannot be a parameter');
    }
    if (names.has(parameter.name)) {
      add([...at, "name"], `there are two parameters named "${parameter.name}"`);
    }
    names.add(parameter.name);
    if (parameter.generate !== undefined && parameter.default !== undefined) {
      add([...at, "default"], "a parameter has a default or a generated value, not both");
    }
    if (parameter.pattern !== undefined && !isRegularExpression(parameter.pattern)) {
      add([...at, "pattern"], "is not a regular expression");
    }
  }
  checkAppFields(spec.app, ["spec", "app"], add);
  const suffixes = new Set<string>();
  for (const [index, companion] of (spec.companions ?? []).entries()) {
    const at = ["spec", "companions", String(index)];
    if (suffixes.has(companion.suffix)) {
      add([...at, "suffix"], `there are two companions with the suffix "${companion.suffix}"`);
    }
    suffixes.add(companion.suffix);
    checkAppFields(companion.app, [...at, "app"], add);
  }
  return issues;
}

/**
 * Checks the fields of a template's app. Values may still be placeholders, but the keys are known, so typos are found
 * before the template is used.
 */
function checkAppFields(
  app: Readonly<Record<string, unknown>>,
  at: readonly string[],
  add: (path: readonly string[], message: string) => void,
): void {
  const known = Object.keys(AppSpec.properties);
  for (const key of Object.keys(app)) {
    if (!known.includes(key))
      add([...at, key], `unknown key "${key}"${formatSuggestion(key, known)}`);
  }
  if (!("image" in app) && !("source" in app)) add(at, "needs image or source");
}

function isRegularExpression(text: string): boolean {
  try {
    return new RegExp(text, "u") instanceof RegExp;
  } catch {
    return false;
  }
}
