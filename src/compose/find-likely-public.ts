import { getValue } from "./compose-tree.ts";
import type { ServiceConversion } from "./service-conversion.ts";
import { isProgramWithoutWeb } from "./web-ports.ts";

/** Matches the names of services that work for other services, and are not for users. */
const workerName =
  /(?:^|[^a-z0-9])(?:workers?|queues?|jobs?|tasks?|processors?|scheduler|cron|beat|celery|sidekiq|runners?|probe|exporter|backup|migrat\w*|init|storage|minio)(?:[^a-z0-9]|$)/;
/** Matches the names of services to which users usually connect. */
const webName =
  /(?:^|[^a-z0-9])(?:web|webapp|www|app|frontend|front|ui|gui|dashboard|proxy|nginx|caddy|ingress|gateway|kong)(?:[^a-z0-9]|$)/;

/**
 * Chooses the service that a user most likely wants to reach: it has a web port and is no database and no worker; no
 * other service depends on it; its name is that of the stack, or usual for a web app; the file publishes or exposes its
 * port. The first of the most likely ones counts.
 */
export function findLikelyPublic(conversions: readonly ServiceConversion[]): string | undefined {
  const needed = new Set(
    conversions
      .filter(({ service }) => !workerName.test(service))
      .flatMap(({ spec }) => spec.dependsOn ?? []),
  );
  const candidates = conversions.flatMap(({ service, app, spec, body, isFailed, options }) => {
    if (isFailed || spec.port === undefined || isProgramWithoutWeb(spec.image, service)) return [];
    const isDeclared = ["ports", "expose"].some((key) => getValue(body, key) !== undefined);
    const rank =
      (workerName.test(service) ? 0 : 8) +
      (needed.has(app) ? 0 : 4) +
      (webName.test(service) || app === `${options.stack}-${options.stack}` ? 2 : 0) +
      (isDeclared ? 1 : 0);
    return [{ service, rank }];
  });
  const best = Math.max(...candidates.map(({ rank }) => rank));
  return candidates.find(({ rank }) => rank === best)?.service;
}
