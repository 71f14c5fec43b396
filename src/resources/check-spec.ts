import type { SpecIssue } from "../base/errors.ts";
import { checkAppSpec } from "./check-app.ts";
import { checkModelSpec } from "./check-model.ts";
import { checkSecretSpec, checkTemplateSpec } from "./check-secret-and-template.ts";
import type { Kind, SpecOf } from "./kinds.ts";

export interface SpecRules {
  /**
   * True if an App with neither image nor source is valid, because its first deploy sets one of them. An App in a
   * document of a user needs one.
   */
  readonly mayLackSource?: boolean;
}

/**
 * Checks the rules that a schema cannot express, such as fields that exclude or require each other. Pure. Expects a
 * spec that matches its schema. `name` is the name of the resource, if known.
 */
export function checkSpec<K extends Kind>(
  kind: K,
  spec: SpecOf[K],
  name: string | undefined,
  rules: SpecRules = {},
): SpecIssue[] {
  const check = checks[kind] as SpecCheck<K>;
  return check(spec, name, rules);
}

type SpecCheck<K extends Kind> = (
  spec: SpecOf[K],
  name: string | undefined,
  rules: SpecRules,
) => SpecIssue[];

const checks: { [K in Kind]: SpecCheck<K> } = {
  App: checkAppSpec,
  Model: checkModelSpec,
  Template: checkTemplateSpec,
  Secret: checkSecretSpec,
};
