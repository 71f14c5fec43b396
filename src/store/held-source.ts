import { SOURCE_REVISION } from "../resources/resource.ts";
import type { Actor, ApplyResult, Store } from "./store.ts";

/**
 * A rollback holds an App's source at a revision. Another source ends that: the revision is one of
 * the source of before. Call it after each apply that may have changed the spec.
 */
export function releaseHeldSource(
  store: Pick<Store, "apply">,
  { resource, changes }: ApplyResult,
  actor: Actor,
): void {
  const { kind, metadata } = resource;
  const isHeld = kind === "App" && metadata.annotations[SOURCE_REVISION] !== undefined;
  if (!isHeld || !changes.some(({ path }) => path.startsWith("/spec/source/"))) return;
  // A rollback itself brings another source together with its revision.
  const key = `/metadata/annotations/${SOURCE_REVISION.replaceAll("/", "~1")}`;
  if (changes.some(({ path }) => path === key)) return;
  store.apply({
    kind,
    name: metadata.name,
    manager: "api",
    actor,
    mode: "merge",
    spec: {},
    annotations: { [SOURCE_REVISION]: null },
    force: true,
  });
}
