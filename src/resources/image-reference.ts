export interface ImageReference {
  /** The name without tag and digest, such as registry.example.org/team/web. */
  readonly repository: string;
  readonly tag: string | null;
  readonly digest: string | null;
}

export function parseImageReference(reference: string): ImageReference {
  const at = reference.indexOf("@");
  const named = at < 0 ? reference : reference.slice(0, at);
  const colon = named.indexOf(":", named.lastIndexOf("/") + 1);
  return {
    repository: colon < 0 ? named : named.slice(0, colon),
    tag: colon < 0 ? null : named.slice(colon + 1),
    digest: at < 0 ? null : reference.slice(at + 1),
  };
}

/** True if the reference has the tag `latest`, or neither a tag nor a digest, so that it means the newest image. */
export function isMovingReference(reference: string): boolean {
  const { tag, digest } = parseImageReference(reference);
  return digest === null && (tag ?? "latest") === "latest";
}
