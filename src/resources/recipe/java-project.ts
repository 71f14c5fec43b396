import type { SourceReader } from "./source-reader.ts";
import { findToolVersion } from "./tool-version.ts";
import { undecidedSourceError } from "./undecided-source.ts";

export interface JavaProject {
  readonly tool: "Maven" | "Gradle";
  readonly kind: "Java" | "Spring Boot" | "Quarkus";
  /** The major version of Java. */
  readonly jdk: number;
  /** The image for the build. */
  readonly image: string;
  /** The folder of the program's module; `""` is the source itself. */
  readonly folder: string;
  readonly hasModules: boolean;
  /** The name of the program, as Gradle installs it. */
  readonly name: string;
  readonly gradleTask: string;
  /** The main class of a jar without one in its manifest; undefined if the manifest names it. */
  readonly mainClass: string | undefined;
  /** The layers of Spring Boot's jar, in the order in which they change least; undefined without them. */
  readonly layers: readonly string[] | undefined;
  readonly decidingFiles: readonly string[];
}

/** Releases of Java with long-term support, for which the images exist. */
const JAVA_RELEASES = [8, 11, 17, 21, 25];
const DEFAULT_JAVA = 21;
const LAYERS = ["dependencies", "spring-boot-loader", "snapshot-dependencies", "application"];
const GRADLE_FILES = ["build.gradle.kts", "build.gradle"];

export function isJavaSource(reader: SourceReader): boolean {
  return ["pom.xml", "settings.gradle.kts", "settings.gradle", ...GRADLE_FILES].some((name) =>
    reader.has(name),
  );
}

/** Reads a Maven or Gradle project. Throws `invalid_request` if the program to run is ambiguous. */
export async function readJavaProject(reader: SourceReader): Promise<JavaProject> {
  const pom = await reader.read("pom.xml");
  if (pom !== undefined) return readMavenProject(reader, pom);
  if (!isJavaSource(reader))
    throw undecidedSourceError("there is neither a pom.xml nor a build.gradle", "add one");
  return readGradleProject(reader);
}

const isMavenProgram = (text: string) =>
  /spring-boot-maven-plugin|quarkus-maven-plugin|<mainClass>|maven-shade-plugin|<exec\.mainClass>/.test(
    text,
  );

async function readMavenProject(reader: SourceReader, pom: string): Promise<JavaProject> {
  const modules = [...pom.matchAll(/<module>\s*([\w./-]+)\s*<\/module>/g)].map(
    ([, name = ""]) => name,
  );
  const texts = new Map<string, string>([["", pom]]);
  for (const module of modules) texts.set(module, (await reader.read(`${module}/pom.xml`)) ?? "");
  const folder = chooseModule([...texts], isMavenProgram);
  const text = texts.get(folder) ?? pom;
  const asked =
    /<(?:java\.version|maven\.compiler\.(?:release|target|source)|jdk\.version)>\s*(?:1\.)?(\d+)/.exec(
      `${text}${pom}`,
    )?.[1] ?? /<release>\s*(\d+)\s*</.exec(text)?.[1];
  const java = await chooseJava(reader, asked);
  const wrapper = (await reader.read(".mvn/wrapper/maven-wrapper.properties")) ?? "";
  const maven = /apache-maven-(3\.\d+\.\d+)-bin/.exec(wrapper)?.[1] ?? "3";
  const kind = findKind(text);
  const boot = /<artifactId>spring-boot-starter-parent<\/artifactId>\s*<version>(\d+)\.(\d+)/.exec(
    `${pom}${text}`,
  );
  return {
    tool: "Maven",
    kind,
    jdk: java.release,
    image: `maven:${maven}-eclipse-temurin-${java.release}`,
    folder,
    hasModules: modules.length > 0,
    name: "app",
    gradleTask: "",
    mainClass:
      /<(?:mainClass|exec\.mainClass)>\s*([\w.$]+)\s*</.exec(text)?.[1] ??
      (kind === "Java" ? await findMainClass(reader, folder) : undefined),
    layers: kind === "Spring Boot" ? layersOf(boot) : undefined,
    decidingFiles: ["pom.xml", ...java.from],
  };
}

const isGradleProgram = (text: string) =>
  /\bapplication\b|org\.springframework\.boot|io\.quarkus|mainClass/.test(text) &&
  !/org\.springframework\.boot["')\s]+(?:version\s+["'][\d.]+["']\s+)?apply\s+false/.test(text);

async function readGradleProject(reader: SourceReader): Promise<JavaProject> {
  const settings =
    (await reader.read("settings.gradle.kts")) ?? (await reader.read("settings.gradle")) ?? "";
  const included = [...settings.matchAll(/\binclude\b([^\n]*)/g)].flatMap(([, list = ""]) =>
    [...list.matchAll(/["']:?([\w:-]+)["']/g)].map(([, name = ""]) => name.replaceAll(":", "/")),
  );
  const texts = new Map<string, string>();
  for (const folder of ["", ...included])
    for (const file of GRADLE_FILES) {
      const text = await reader.read(folder === "" ? file : `${folder}/${file}`);
      if (text !== undefined && !texts.has(folder)) texts.set(folder, text);
    }
  const folder = chooseModule([...texts], isGradleProgram);
  const text = texts.get(folder) ?? "";
  const asked =
    /JavaLanguageVersion\.of\(\s*(\d+)/.exec(text)?.[1] ??
    /(?:source|target)Compatibility\s*=?\s*(?:JavaVersion\.VERSION_|["'])?(?:1[._])?(\d+)/.exec(
      text,
    )?.[1] ??
    /jvmToolchain\(\s*(\d+)/.exec(text)?.[1];
  const java = await chooseJava(reader, asked);
  const wrapper = (await reader.read("gradle/wrapper/gradle-wrapper.properties")) ?? "";
  const gradle = /gradle-(\d+\.\d+)(?:\.\d+)?-/.exec(wrapper)?.[1];
  const kind = findKind(text);
  const boot = /org\.springframework\.boot["')\s]+version\s*\(?["'](\d+)\.(\d+)/.exec(text);
  const root = /rootProject\.name\s*=\s*["']([\w.-]+)["']/.exec(settings)?.[1];
  const task = { "Spring Boot": "bootJar", Quarkus: "quarkusBuild", Java: "installDist" }[kind];
  return {
    tool: "Gradle",
    kind,
    jdk: java.release,
    image: `gradle:${gradle === undefined ? "" : `${gradle}-`}jdk${java.release}`,
    folder,
    hasModules: included.length > 0,
    name: folder.split("/").at(-1) || (root ?? "app"),
    gradleTask: `${folder === "" ? "" : `:${folder.replaceAll("/", ":")}:`}${task}`,
    mainClass: undefined,
    layers: kind === "Spring Boot" ? layersOf(boot) : undefined,
    decidingFiles: [
      ...GRADLE_FILES.filter((file) => reader.has(file)),
      ...["settings.gradle.kts", "settings.gradle"].filter((file) => reader.has(file)),
      ...java.from,
    ],
  };
}

function findKind(text: string): JavaProject["kind"] {
  if (/spring-boot-maven-plugin|org\.springframework\.boot/.test(text)) return "Spring Boot";
  return /quarkus-maven-plugin|io\.quarkus/.test(text) ? "Quarkus" : "Java";
}

/** Spring Boot 3.3 and newer have the mode `tools`, which extracts the layers. */
function layersOf(version: RegExpExecArray | null): readonly string[] | undefined {
  const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)];
  return major > 3 || (major === 3 && minor >= 3) ? LAYERS : undefined;
}

/** Chooses the module that is a program; the source itself if none of several modules looks like one. */
function chooseModule(
  modules: readonly (readonly [string, string])[],
  isProgram: (text: string) => boolean,
): string {
  const programs = modules.filter(([, text]) => isProgram(text)).map(([folder]) => folder);
  const inFolders = programs.filter((folder) => folder !== "");
  const [only, ...others] = inFolders.length > 0 ? inFolders : programs;
  if (others.length === 0) return only ?? "";
  throw undecidedSourceError(
    `several modules are programs (${inFolders.join(", ")})`,
    "deploy the folder of the module to run",
  );
}

async function chooseJava(
  reader: SourceReader,
  asked: string | undefined,
): Promise<{ readonly release: number; readonly from: readonly string[] }> {
  const sdkman = /^java=(\d+)/m.exec((await reader.read(".sdkmanrc")) ?? "")?.[1];
  const properties = /^java\.runtime\.version\s*=\s*(?:1\.)?(\d+)/m.exec(
    (await reader.read("system.properties")) ?? "",
  )?.[1];
  const tool = await findToolVersion(reader, ["java"], [".java-version"]);
  const named = /(?:^|-)(?:1\.)?(\d+)/.exec(tool?.version ?? "")?.[1];
  const [written, from] =
    named !== undefined && tool !== undefined
      ? [named, [tool.from]]
      : sdkman !== undefined
        ? [sdkman, [".sdkmanrc"]]
        : properties !== undefined
          ? [properties, ["system.properties"]]
          : [asked, []];
  const release = JAVA_RELEASES.find((it) => it >= Number(written ?? DEFAULT_JAVA));
  return { release: release ?? JAVA_RELEASES.at(-1) ?? DEFAULT_JAVA, from };
}

/** The number of Java files that are searched for a main method. */
const FILES_MAX = 200;

/** Finds the only class with a main method in src/main/java. */
async function findMainClass(reader: SourceReader, folder: string): Promise<string | undefined> {
  const root = folder === "" ? "src/main/java" : `${folder}/src/main/java`;
  const found: string[] = [];
  const folders = [root];
  let files = 0;
  for (let at = folders.pop(); at !== undefined; at = folders.pop())
    for (const name of reader.list(at)) {
      const path = `${at}/${name}`;
      if (!name.endsWith(".java")) folders.push(path);
      else if (
        ++files <= FILES_MAX &&
        /public static void main\(/.test((await reader.read(path)) ?? "")
      )
        found.push(path.slice(root.length + 1, -".java".length).replaceAll("/", "."));
    }
  return found.length === 1 ? found[0] : undefined;
}
