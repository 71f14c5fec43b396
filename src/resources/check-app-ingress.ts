import type { IngressOptions } from "./app-ingress-spec.ts";
import type { AppSpec } from "./app-spec.ts";
import { findDomainProblem, type IssueList } from "./field-checks.ts";
import { NO_DOMAIN } from "./field-schemas.ts";

type AddIssue = IssueList["add"];

/** Checks the domains, redirects and paths of an App. */
export function checkAppIngress(spec: AppSpec, add: AddIssue): void {
  if (spec.domain === NO_DOMAIN) {
    if (spec.ingress !== undefined)
      add(
        ["spec", "ingress"],
        `has no effect with domain: ${NO_DOMAIN}, because the app gets no requests from outside`,
      );
    return;
  }
  const own = checkDomains(spec, add);
  if (spec.port === undefined) {
    const needsPort = "needs port: the port in the container to which requests are sent";
    if (spec.domain !== undefined) add(["spec", "domain"], needsPort);
    if (spec.ingress !== undefined) add(["spec", "ingress"], needsPort);
  }
  const { ingress } = spec;
  if (!ingress) return;
  checkRedirects(ingress, own, add);
  checkPrefix(ingress, add);
  const { maintenance } = ingress;
  if (typeof maintenance === "object" && maintenance.html !== undefined) {
    if (maintenance.message !== undefined) {
      add(["spec", "ingress", "maintenance"], "set message or html, not both");
    }
  }
}

/** Checks all domains of the App. Returns a map from each domain to the field of the spec that contains the domain. */
function checkDomains(spec: AppSpec, add: AddIssue): ReadonlyMap<string, string> {
  const own = new Map<string, string>();
  if (spec.domain !== undefined) {
    own.set(spec.domain, "domain");
    if (spec.domain.startsWith("*.")) {
      add(
        ["spec", "domain"],
        `"${spec.domain}" stands for many domains, and this field is the app's address: put the pattern into ingress.domains`,
      );
    }
    const problem = findDomainProblem(spec.domain);
    if (problem !== undefined) add(["spec", "domain"], `"${spec.domain}" ${problem}`);
  }
  for (const [index, domain] of (spec.ingress?.domains ?? []).entries()) {
    const at = ["spec", "ingress", "domains", String(index)];
    const same = own.get(domain);
    if (same !== undefined) add(at, `"${domain}" is listed already as ${same}`);
    else own.set(domain, `ingress.domains[${index}]`);
    const problem = findDomainProblem(domain);
    if (problem !== undefined) add(at, `"${domain}" ${problem}`);
  }
  return own;
}

function checkRedirects(
  ingress: IngressOptions,
  own: ReadonlyMap<string, string>,
  add: AddIssue,
): void {
  const seen = new Map<string, number>();
  for (const [index, { from, to }] of (ingress.redirects ?? []).entries()) {
    const at = ["spec", "ingress", "redirects", String(index)];
    const same = own.get(from);
    if (same !== undefined) {
      add([...at, "from"], `"${from}" is a domain of the app itself (${same}): leave out one`);
    }
    const first = seen.get(from);
    if (first === undefined) seen.set(from, index);
    else add([...at, "from"], `"${from}" is redirected already by redirects[${first}]`);
    const problem = findDomainProblem(from);
    if (problem !== undefined) add([...at, "from"], `"${from}" ${problem}`);
    if (to === undefined) continue;
    const target = URL.parse(to);
    if (!target) add([...at, "to"], "is not a URL, such as https://www.example.org");
    else if (coversHost(from, target.hostname)) {
      add([...at, "to"], `redirects back to "${from}", which makes a loop`);
    }
  }
}

function coversHost(domain: string, host: string): boolean {
  if (!domain.startsWith("*.")) return domain === host;
  const rest = domain.slice(1);
  return host.endsWith(rest) && !host.slice(0, -rest.length).includes(".");
}

function checkPrefix(ingress: IngressOptions, add: AddIssue): void {
  const { pathPrefix, stripPrefix } = ingress;
  if (pathPrefix === undefined) {
    if (stripPrefix === true) {
      add(["spec", "ingress", "stripPrefix"], "has no effect without pathPrefix");
    }
    return;
  }
  const at = ["spec", "ingress", "pathPrefix"];
  const segments = pathPrefix.split("/").slice(1);
  if (segments.some((segment) => ["", ".", ".."].includes(segment))) {
    add(at, "contains an empty segment, . or .., which no request path has");
  }
  if (/[%\\]/.test(pathPrefix)) {
    add(at, "is compared with paths after decoding: write it without % and \\");
  }
}
