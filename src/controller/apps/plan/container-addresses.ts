import { getPlaceInPair } from "../../reserved-addresses.ts";
import type { ContainerSpec, NetworkEndpoint, ObservedContainer } from "../../runtime/port.ts";
import { getSpecHash, isUp } from "./observed-containers.ts";
import type { PlanDraft } from "./plan-draft.ts";

/**
 * Adds an address to the spec of a container that is about to be created. Each replica has two reserved addresses, and
 * the versions of an App use them in turn, so that Caddy's configuration can contain both. All replicas of a version
 * use the same place in their pairs. While containers of two other versions have both, the engine chooses the address.
 */
export function withAddress(draft: PlanDraft, spec: ContainerSpec): ContainerSpec {
  const replica = draft.desired.containers.indexOf(spec);
  const pair = draft.desired.addressPairs[replica];
  if (pair === undefined) return spec;
  const place = choosePlace(draft);
  return place === undefined ? spec : { ...spec, reservedAddress: 2 * pair + place };
}

/** Returns the connection of a container that has lost its network. */
export function endpointOf(draft: PlanDraft, spec: ContainerSpec): NetworkEndpoint {
  const { aliases, reservedAddress } = withAddress(draft, spec);
  return reservedAddress === undefined ? { aliases } : { aliases, reservedAddress };
}

function choosePlace({ desired, observed }: PlanDraft): number | undefined {
  const { containers, route, window } = observed;
  const isOwn = (container: ObservedContainer) => getSpecHash(container) === desired.hash;
  const [own] = containers.filter(isOwn).flatMap(listPlaces);
  // The engine lends the address of a container that has ended to another one. The version that serves, and the one
  // that may serve again, are started again.
  const serving = new Set([route?.version, window?.previous]);
  const others = containers.filter(
    (item) => !isOwn(item) && (isUp(item) || serving.has(getSpecHash(item))),
  );
  const taken = new Set(others.flatMap(listPlaces));
  return own ?? [0, 1].find((place) => !taken.has(place));
}

function listPlaces({ reservedAddress }: ObservedContainer): number[] {
  return reservedAddress === null ? [] : [getPlaceInPair(reservedAddress)];
}
