import type { AppPhase } from "../../resources/app-status.ts";
import { isKind, type Resource } from "../../resources/resource.ts";
import { getStack } from "../../resources/stack.ts";
import type { AppItem } from "../../resources/wire/apps.ts";
import type { StackDetails, StackItem } from "../../resources/wire/stacks.ts";
import { appItem } from "./app.ts";

/** The phases of apps, the one that most needs attention first. */
const PHASES_BY_URGENCY: readonly AppPhase[] = [
  "failed",
  "degraded",
  "unknown",
  "pending",
  "building",
  "deploying",
  "deleting",
  "running",
  "completed",
  "stopped",
];

export interface StackMembers {
  readonly name: string;
  readonly apps: readonly Resource<"App">[];
  readonly secrets: readonly Resource<"Secret">[];
}

/** Groups resources by their stack. Returns the stacks by name; resources without a stack are left out. */
export function groupByStack(resources: readonly Resource[]): readonly StackMembers[] {
  const groups = new Map<string, Resource[]>();
  for (const resource of resources) {
    const stack = getStack(resource.metadata);
    if (stack !== undefined) groups.set(stack, [...(groups.get(stack) ?? []), resource]);
  }
  return [...groups]
    .map(([name, members]) => ({
      name,
      apps: members.filter((one) => isKind(one, "App")),
      secrets: members.filter((one) => isKind(one, "Secret")),
    }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Derives the state of a stack from its apps. Pure. */
export function stackDetails(
  { name, apps, secrets }: StackMembers,
  baseDomain: string,
): StackDetails {
  const members = apps.map((app) => appItem(app, baseDomain));
  const first = findMostUrgent(members);
  return {
    name,
    status: first?.status ?? "stopped",
    apps: members.length,
    ready: members.filter(({ ready }) => ready).length,
    urls: members.flatMap(({ url }) => url ?? []),
    message: first === undefined ? "the stack has no apps" : `${first.name}: ${first.message}`,
    members,
    secrets: secrets.map(({ metadata }) => metadata.name),
  };
}

export function stackItem(stack: StackMembers, baseDomain: string): StackItem {
  const { members: _members, secrets: _secrets, ...item } = stackDetails(stack, baseDomain);
  return item;
}

function findMostUrgent(members: readonly AppItem[]): AppItem | undefined {
  return members.toSorted((a, b) => getUrgencyRank(a) - getUrgencyRank(b))[0];
}

/** Returns a number that is lower for an app that needs more attention. */
function getUrgencyRank({ status, ready }: AppItem): number {
  return 2 * PHASES_BY_URGENCY.indexOf(status) + (ready ? 1 : 0);
}
