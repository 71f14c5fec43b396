import { InvalidSpecError } from "../base/errors.ts";
import type { Leaves } from "./field-leaves.ts";
import type { Ownership } from "./field-managers.ts";

const IMAGE = "/spec/image";
const SOURCE = "/spec/source";

/**
 * Throws InvalidSpecError if a document sets the image of an App whose source another manager has set, or the source of
 * an App whose image another manager has set. The message names the other manager, because the document shows only the
 * field that it sets itself. `set` contains the fields of the document.
 */
export function assertImageOrSource(
  app: string,
  set: Leaves,
  after: Pick<Ownership, "leaves" | "owners">,
  describeManager: (manager: string) => string,
): void {
  const image = find(after.leaves, IMAGE);
  const source = find(after.leaves, SOURCE);
  if (image === undefined || source === undefined) return;
  const setsImage = find(set, IMAGE) !== undefined;
  if (setsImage === (find(set, SOURCE) !== undefined)) return;
  const owner = describeManager(after.owners[setsImage ? source : image] ?? "api");
  const message = setsImage
    ? `app "${app}" has a source, which ${owner} has set, and cannot have an image too; replace the source first: berth deploy ${app} --image IMAGE`
    : `app "${app}" has an image, which ${owner} has set, and cannot have a source too; set image to null, or deploy the source with berth deploy`;
  throw new InvalidSpecError(message, [{ path: setsImage ? IMAGE : SOURCE, message }]);
}

/** Throws InvalidSpecError if a write removes the image or the source of the App without setting the other one. */
export function assertSourceKept(app: string, before: Leaves, after: Leaves): void {
  if (!hasSource(before) || hasSource(after)) return;
  const message = "needs image (an image reference) or source (something to build)";
  const issue = { path: "/spec", message };
  throw new InvalidSpecError(`App "${app}" is not valid: spec: ${message}`, [issue]);
}

function hasSource(leaves: Leaves): boolean {
  return find(leaves, IMAGE) !== undefined || find(leaves, SOURCE) !== undefined;
}

function find(leaves: Leaves, field: string): string | undefined {
  return [...leaves.keys()].find((pointer) => pointer === field || pointer.startsWith(`${field}/`));
}
