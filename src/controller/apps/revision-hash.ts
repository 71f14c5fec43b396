import { hashJson } from "../../base/canonical-json.ts";
import { resolveAppDefaults } from "../../resources/app-defaults.ts";
import type { AppSpec } from "../../resources/app-spec.ts";
import { MODELS_PORT } from "../models/container-listener.ts";
import { buildModelSettings } from "./model-inputs.ts";

/**
 * True for each field of the spec that makes a new revision, because it changes the containers. The type makes the
 * compiler require an entry here for each new field of the spec. The field `models` is false, because the revision's
 * hash contains the settings that the containers get from it.
 */
const makesRevision: Readonly<Record<keyof AppSpec, boolean>> = {
  image: true,
  platform: true,
  source: true,
  build: true,
  port: true,
  env: true,
  entrypoint: true,
  command: true,
  user: true,
  workingDir: true,
  resources: true,
  volumes: true,
  folders: true,
  files: true,
  ports: true,
  stopGracePeriod: true,
  pullPolicy: true,
  aliases: true,
  hostname: true,
  security: true,
  ulimits: true,
  tmpfs: true,
  shmSize: true,
  oneShot: false,
  domain: false,
  ingress: false,
  running: false,
  suspend: false,
  replicas: false,
  healthCheck: false,
  rollout: false,
  restart: false,
  models: false,
  dependsOn: false,
  pullSecret: false,
};

const revisionFields: ReadonlyMap<string, boolean> = new Map(Object.entries(makesRevision));

/**
 * Identifies a revision of an App: a hash of the fields of its spec that change the containers. Secrets count only as
 * references, and the time of a restart does not count, so that rotations and restarts make no new revision. `image`
 * is the built image of a spec with a source: another commit makes another revision. `imageId` is the image that the
 * reference was resolved to, or null before the resolution: a tag that has moved makes another revision.
 */
export function revisionHash(spec: AppSpec, image: string | null, imageId: string | null): string {
  const fields = Object.fromEntries(
    Object.entries(spec).filter(([field]) => revisionFields.get(field) === true),
  );
  const built = spec.source === undefined ? {} : { image };
  const models =
    (spec.models ?? []).length === 0
      ? {}
      : { models: buildModelSettings(resolveAppDefaults(spec), MODELS_PORT) };
  const pinned = imageId === null ? {} : { imageId };
  return hashJson({ ...fields, ...built, ...models, ...pinned }).slice(0, 16);
}
