import type { SpecIssue } from "../base/errors.ts";
import type { AppSpec } from "./app-spec.ts";
import { formatPointer } from "./json-pointer.ts";
import type { Manifest, Metadata } from "./kinds.ts";

/**
 * The label in which the store keeps `metadata.stack`: the name of the stack that the resource belongs to. A stack is
 * only a name that resources share; it is stored nowhere else.
 */
export const STACK_LABEL = "berth.dev/stack";

/** Returns the name of the resource's stack; undefined if it belongs to none. */
export function getStack(metadata: {
  readonly labels: Readonly<Record<string, string>>;
}): string | undefined {
  return metadata.labels[STACK_LABEL];
}

/** Returns the labels of a manifest as the store keeps them: with the name of the stack. */
export function toStoredLabels({
  labels,
  stack,
}: {
  readonly labels?: Metadata["labels"] | undefined;
  readonly stack?: string | undefined;
}): Record<string, string> {
  return { ...labels, ...(stack === undefined ? {} : { [STACK_LABEL]: stack }) };
}

/** Returns the metadata of a manifest from the labels that the store keeps. The inverse of `toStoredLabels`. */
export function fromStoredLabels(stored: Readonly<Record<string, unknown>>): {
  readonly stack?: unknown;
  readonly labels: Record<string, unknown>;
} {
  const { [STACK_LABEL]: stack, ...labels } = stored;
  return { ...(stack === undefined ? {} : { stack }), labels };
}

/** Returns the name of an App's service in its stack: `db` for the App `blog-db` of the stack `blog`. */
export function getServiceName(app: string, stack: string): string {
  return app.slice(stack.length + 1);
}

/**
 * Checks that the name of an App in a stack is STACK-SERVICE, so that the Apps of two stacks never have the same name,
 * and that the App is in a stack if it has a field that only Apps of a stack have.
 */
export function checkStack(manifest: Manifest): SpecIssue[] {
  if (!isApp(manifest)) return [];
  const { name, stack, labels } = manifest.metadata;
  const issues: SpecIssue[] = [];
  if (labels?.[STACK_LABEL] !== undefined)
    issues.push({
      path: `/metadata/labels/${STACK_LABEL.replace("/", "~1")}`,
      message: "write the name of the stack as metadata.stack",
    });
  if (stack !== undefined && !(name.startsWith(`${stack}-`) && name.length > stack.length + 1))
    issues.push({
      path: "/metadata/name",
      message: `an app of the stack "${stack}" has a name of the form ${stack}-SERVICE, such as ${stack}-web`,
    });
  if (stack === undefined) issues.push(...checkFieldsOfStacks(manifest.spec));
  return issues;
}

function isApp(manifest: Manifest): manifest is Manifest<"App"> {
  return manifest.kind === "App";
}

function checkFieldsOfStacks({ aliases, volumes = [], folders = [] }: AppSpec): SpecIssue[] {
  const issues: SpecIssue[] = [];
  const add = (path: readonly string[], reason: string) =>
    issues.push({
      path: formatPointer(["spec", ...path]),
      message: `${reason}: set metadata.stack too`,
    });
  if (aliases !== undefined) add(["aliases"], "aliases are names in the network of a stack");
  for (const [list, items] of Object.entries({ volumes, folders }))
    for (const [index, item] of items.entries())
      if ("shared" in item && item.shared)
        add([list, String(index), "shared"], "only apps of a stack share data");
  return issues;
}
