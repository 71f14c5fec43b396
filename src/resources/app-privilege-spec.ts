import { type Static, Type } from "typebox";

const closed = { additionalProperties: false } as const;

/** What the containers of an App may not do. Without these fields, they have the defaults of the engine. */
export const Security = Type.Object(
  {
    readOnlyRoot: Type.Optional(
      Type.Boolean({
        description: "true: the container cannot write to its own files, only to volumes and tmpfs",
      }),
    ),
    dropCapabilities: Type.Optional(
      Type.Array(
        Type.String({
          pattern: "^[A-Z][A-Z_]*$",
          maxLength: 64,
          description: "a capability of Linux without the prefix CAP_, such as NET_RAW, or ALL",
        }),
        { maxItems: 64, uniqueItems: true },
      ),
    ),
    noNewPrivileges: Type.Optional(
      Type.Boolean({
        description: "true: programs with a setuid bit give their processes no more rights",
      }),
    ),
  },
  { ...closed, description: "restrictions of the app's containers" },
);

/** A limit of processes: a number, or -1 for no limit. */
const Limit = Type.Integer({ minimum: -1, maximum: 1_000_000_000_000 });

const ulimitNames = [
  "as",
  "core",
  "cpu",
  "data",
  "fsize",
  "locks",
  "memlock",
  "msgqueue",
  "nice",
  "nofile",
  "nproc",
  "rss",
  "rtprio",
  "rttime",
  "sigpending",
  "stack",
] as const;
export type UlimitName = (typeof ulimitNames)[number];

export const Ulimits = Type.Record(
  Type.String({ pattern: `^(${ulimitNames.join("|")})$` }),
  Type.Union([Limit, Type.Object({ soft: Limit, hard: Limit }, closed)], {
    description: "a limit of each process, or { soft, hard }; -1 is no limit",
  }),
  {
    additionalProperties: false,
    description: "limits of the processes by the names of the kernel, such as nofile or nproc",
  },
);
export type Ulimits = Static<typeof Ulimits>;

/**
 * The limits that the usual configurations of engines give to containers, in the unit of each limit. An App may have
 * them, or lower ones. Limits without an entry are unlimited there.
 */
const USUAL_LIMITS: Readonly<Partial<Record<UlimitName, number>>> = {
  memlock: 65_536,
  msgqueue: 819_200,
  nice: 0,
  nofile: 1_048_576,
  rtprio: 0,
  sigpending: 1_024,
};

/** Returns true if the limit allows more than the usual configurations of engines do. */
export function isRaisedLimit(name: string, limit: Ulimits[string]): boolean {
  const usual = Object.entries(USUAL_LIMITS).find(([known]) => known === name)?.[1];
  if (usual === undefined) return false;
  const { soft, hard } = typeof limit === "number" ? { soft: limit, hard: limit } : limit;
  return [soft, hard].some((value) => value === -1 || value > usual);
}
