import { getPlaceInPair } from "../../reserved-addresses.ts";
import type { ContainerSpec, NetworkEndpoint, ObservedContainer } from "../../runtime/port.ts";
import { getSpecHash, isUp } from "./observed-containers.ts";
import type { PlanDraft } from "./plan-draft.ts";

/**
 * Adds an address to the spec of a container that is about to be created. Each replica has a pair of reserved
 * addresses, which the versions of an App use in turn, so that Caddy's configuration can contain both. A version uses
 * either the first or the second address of every pair. If two other versions use both, the engine chooses the address.
 */
export function withAddress(draft: PlanDraft, spec: ContainerSpec): ContainerSpec {
  const replica = draft.desired.containers.indexOf(spec);
  const pair = draft.desired.addressPairs[replica];
  if (pair === undefined) return spec;
  const place = choosePlace(draft);
  return place === undefined ? spec : { ...spec, reservedAddress: 2 * pair + place };
}

/** Returns the endpoint with which a container that has lost its network is connected to the network again. */
export function endpointOf(draft: PlanDraft, spec: ContainerSpec): NetworkEndpoint {
  const { aliases, reservedAddress } = withAddress(draft, spec);
  return reservedAddress === undefined ? { aliases } : { aliases, reservedAddress };
}

function choosePlace({ desired, observed }: PlanDraft): number | undefined {
  const { containers, route, window } = observed;
  const isOwn = (container: ObservedContainer) => getSpecHash(container) === desired.hash;
  const [own] = containers.filter(isOwn).flatMap(listPlaces);
  // A container that has ended leaves its address free for other containers. Containers of the serving version, and of
  // the version to which the rollout may switch back, are an exception: they are started again and need their
  // addresses.
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
