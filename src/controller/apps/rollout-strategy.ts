import type { EffectiveApp } from "../../resources/app-defaults.ts";
import { NO_DOMAIN } from "../../resources/field-schemas.ts";

export interface Strategy {
  readonly type: "recreate" | "rolling";
  /** The reason for the strategy in CamelCase, for programs; `message` states it for people. */
  readonly reason: string;
  readonly message: string;
}

/**
 * Chooses how a new version replaces the old one. The strategy rolling needs an ingress that switches between the two
 * versions. It is impossible if the App uses a resource that only one version can have at a time, such as a port of
 * the machine or a writable volume.
 */
export function chooseStrategy(app: EffectiveApp, hasIngress: boolean): Strategy {
  if (app.rollout.strategy === "recreate")
    return recreateStrategy("AskedFor", "the spec requests recreate");
  if (app.port === undefined) {
    return recreateStrategy(
      "NoPort",
      "the app accepts no requests, and two versions at once might do the same work twice",
    );
  }
  if (app.domain === NO_DOMAIN) {
    return recreateStrategy(
      "NoDomain",
      "the app has no domain, so nothing switches requests from one version to the next; requests of other apps fail during the replacement",
    );
  }
  if (!hasIngress) {
    return recreateStrategy(
      "NoIngress",
      "without an ingress a new version starts after the old one has stopped; requests fail during the replacement",
    );
  }
  const [port] = app.ports;
  if (port) {
    return recreateStrategy(
      "HostPort",
      `port ${port.host} of this machine can be held by one version at a time; requests fail during the replacement`,
    );
  }
  const volume = app.volumes.find((item) => item.readOnly !== true);
  const folder = app.folders.find((item) => item.readOnly !== true);
  if (volume || folder) {
    const what =
      volume && "name" in volume
        ? `volume "${volume.name}"`
        : `folder ${volume ? volume.hostPath : `"${folder?.name}"`}`;
    return recreateStrategy(
      "SharedVolume",
      `two versions must not write to ${what} at the same time; requests fail during the replacement`,
    );
  }
  return {
    type: "rolling",
    reason: "Rolling",
    message:
      "a new version gets the requests when all its replicas are healthy, and no request fails",
  };
}

function recreateStrategy(reason: string, message: string): Strategy {
  return { type: "recreate", reason, message };
}
