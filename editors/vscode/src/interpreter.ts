// Which Python t4lint runs in: the one of the settings, the one chosen in the Python extension (where there is one), the
// workspace's own environment, or that of the PATH.

import { execFile } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";

const ENVIRONMENTS = [".venv", "venv", "env"];
const isWindows = process.platform === "win32";
// Says what there is, whatever is missing; written so that old Pythons can run it too.
const PROBE = `
import json, sys
said = {"python": sys.executable, "release": list(sys.version_info[:2]), "version": None, "pip": True}
try:
    import pip
except Exception:
    said["pip"] = False
try:
    import t4lint, pygls
    said["version"] = t4lint.__version__
except Exception:
    pass
sys.stdout.write(json.dumps(said))
`;

export interface Found {
  python: string;
  /** Of this Python: its major and minor version. */
  release: [number, number];
  /** The version of t4lint there; null where it, or its extra `lsp`, is missing. */
  version: string | null;
  /** Has it a pip? Environments of uv have none. */
  pip: boolean;
}

/** The interpreter of the settings, as it is written there; empty where there is none. */
export function configured(): string {
  return vscode.workspace.getConfiguration("t4lint").get<string>("interpreter", "").trim();
}

/** The first interpreter that has t4lint, else the first that runs at all. */
export async function findInterpreter(): Promise<Found | undefined> {
  let first: Found | undefined;
  for (const python of configured() ? [fromSettings(configured())] : await candidates()) {
    const found = await probe(python);
    if (found?.version) {
      return found;
    }
    first ??= found;
  }
  return first;
}

async function candidates(): Promise<string[]> {
  const found: (string | undefined)[] = [];
  if (vscode.workspace.isTrusted) {
    found.push(await chosenInPythonExtension());
    for (const folder of vscode.workspace.workspaceFolders ?? []) {
      found.push(...environmentsIn(folder.uri.fsPath));
    }
  }
  found.push(...(isWindows ? ["python", "py"] : ["python3", "python"]));
  return [...new Set(found.filter((it) => it !== undefined))];
}

/** The environments in a folder, those with a usual name first. */
function environmentsIn(folder: string): string[] {
  let names: string[] = [];
  try {
    names = readdirSync(folder).filter((name) => existsSync(path.join(folder, name, "pyvenv.cfg")));
  } catch {
    // a folder that cannot be read has none
  }
  const usual = ENVIRONMENTS.filter((name) => existsSync(inEnvironment(path.join(folder, name))));
  return [...new Set([...usual, ...names.sort()])].map((name) => inEnvironment(path.join(folder, name)));
}

/** A path as a person writes it: with variables, relative to the folder, of an environment as a whole. */
function fromSettings(written: string): string {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? os.homedir();
  const plain = written
    .replace(/^~(?=$|[/\\])/, os.homedir())
    .replaceAll("${workspaceFolder}", folder)
    .replaceAll("${userHome}", os.homedir())
    .replace(/\$\{env:(\w+)\}/g, (_, name: string) => process.env[name] ?? "");
  const isName = !/[/\\]/.test(plain); // of a program in the PATH
  const place = isName && !existsSync(path.join(folder, plain)) ? plain : path.resolve(folder, plain);
  return existsSync(place) && statSync(place).isDirectory() ? inEnvironment(place) : place;
}

function inEnvironment(folder: string): string {
  return isWindows ? path.join(folder, "Scripts", "python.exe") : path.join(folder, "bin", "python");
}

/** What of the interface of the Python extension is used here. */
interface PythonExtension {
  environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(environment: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath?: vscode.Event<unknown>;
  };
}

async function pythonExtension(): Promise<PythonExtension["environments"]> {
  const extension = vscode.extensions.getExtension<PythonExtension>("ms-python.python");
  try {
    return (extension?.isActive ? extension.exports : await extension?.activate())?.environments;
  } catch {
    return undefined; // that it does not start is told by itself
  }
}

async function chosenInPythonExtension(): Promise<string | undefined> {
  const environments = await pythonExtension();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  try {
    const chosen = environments && (await environments.resolveEnvironment(environments.getActiveEnvironmentPath(folder)));
    return chosen?.executable.uri?.fsPath;
  } catch {
    return undefined;
  }
}

/** Tells when another interpreter is chosen in the Python extension. */
export async function onChosen(changed: () => void): Promise<vscode.Disposable | undefined> {
  return (await pythonExtension())?.onDidChangeActiveEnvironmentPath?.(changed);
}

/** What an interpreter has; undefined where it does not run. */
function probe(python: string): Promise<Found | undefined> {
  return new Promise((resolve) => {
    // Not from the workspace: a file t4lint.py in it would be imported.
    execFile(python, ["-c", PROBE], { cwd: os.tmpdir(), timeout: 20_000 }, (error, stdout) => {
      try {
        resolve(error ? undefined : JSON.parse(stdout));
      } catch {
        resolve(undefined);
      }
    });
  });
}
