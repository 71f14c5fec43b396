import type { SpecIssue } from "../base/errors.ts";
import { checkAppSpec } from "./check-app.ts";
import { checkModelSpec } from "./check-model.ts";
import { checkSecretSpec, checkTemplateSpec } from "./check-secret-and-template.ts";
import type { Kind, SpecOf } from "./kinds.ts";

/**
 * Checks the rules that a schema cannot express, such as fields that exclude or require each other. Pure. Expects a spec
 * that matches its schema. `name` is the name of the resource, if known.
 */
export function checkSpec<K extends Kind>(
  kind: K,
  spec: SpecOf[K],
  name: string | undefined,
): SpecIssue[] {
  const check = checks[kind] as (spec: SpecOf[K], name: string | undefined) => SpecIssue[];
  return check(spec, name);
}

const checks: { [K in Kind]: (spec: SpecOf[K], name: string | undefined) => SpecIssue[] } = {
  App: checkAppSpec,
  Model: checkModelSpec,
  Template: checkTemplateSpec,
  Secret: checkSecretSpec,
};
