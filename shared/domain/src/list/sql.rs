//! Building SQL: text that can only come from the tables of fields, and values that are always bound.

use std::fmt::Write as _;

use sqlx::postgres::PgArguments;
use sqlx::{Arguments as _, AssertSqlSafe, Encode, Postgres, SqlSafeStr as _, SqlStr, Type};

use super::resource::{Field, Kind, Link, Resource, Tenancy};
use longshore_kernel::access::Scope;
use longshore_kernel::ids::OrganisationId;
use longshore_kernel::problem::Problem;

/// Names a row in a statement: `t0`, `t1`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alias(u32);

impl Alias {
    /// The row that is listed.
    pub(super) const ROOT: Self = Self(0);
    /// A linked row, within the brackets of a sub-select that shows it.
    const LINK: Self = Self(u32::MAX);
}

/// A placeholder for the organisations of the scope until [`Binder::settle`]. No text of a caller is ever part of a statement, so
/// nothing else can look like it.
const ORGANISATIONS: &str = "{o}";

/// A placeholder for the e-shop of the scope, in the same way.
const ESHOP: &str = "{e}";

/// Arguments that a function of Postgres takes.
const ARGUMENTS: usize = 100;

/// A piece of SQL. It takes static text, numbers and other pieces: what a caller sends cannot get in.
#[derive(Clone, Debug, Default)]
pub(super) struct Sql(String);

impl Sql {
    pub(super) fn push(&mut self, text: &'static str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    pub(super) fn piece(&mut self, piece: &Self) -> &mut Self {
        self.0.push_str(&piece.0);
        self
    }

    pub(super) fn alias(&mut self, alias: Alias) -> &mut Self {
        let _ = write!(self.0, "t{}", alias.0);
        self
    }

    /// All rows of a resource, wherever they are.
    pub(super) fn table(&mut self, resource: &'static Resource) -> &mut Self {
        if let [only] = resource.tables {
            return self.push(only);
        }
        for (position, table) in resource.tables.iter().enumerate() {
            self.push(if position > 0 { " UNION ALL " } else { "(" }).push(table);
        }
        self.push(")")
    }

    /// The number of a sort key.
    pub(super) fn number(&mut self, number: usize) -> &mut Self {
        let _ = write!(self.0, "{number}");
        self
    }

    /// An expression of a table of fields, with the alias of its row filled in.
    pub(super) fn expression(&mut self, template: &'static str, row: Alias) -> &mut Self {
        self.fill(template, |sql, mark| match mark {
            "t" => sql.alias(row),
            "e" => sql.push(ESHOP),
            _ => sql.push(ORGANISATIONS),
        })
    }

    /// An expression about a row and one that is linked to it.
    pub(super) fn linked(&mut self, template: &'static str, row: Alias, link: Alias) -> &mut Self {
        self.fill(template, |sql, mark| match mark {
            "t" => sql.alias(row),
            "l" => sql.alias(link),
            "e" => sql.push(ESHOP),
            _ => sql.push(ORGANISATIONS),
        })
    }

    /// What is true of a row that an e-shop, a wms or a maker may see.
    fn of_one(&mut self, template: &'static str, row: Alias, one: &Self) -> &mut Self {
        self.fill(template, |sql, mark| match mark {
            "t" => sql.alias(row),
            "e" | "w" | "m" => sql.piece(one),
            _ => sql,
        })
    }

    /// Fills the marks of a template, as in `{t}`.
    fn fill(
        &mut self,
        template: &'static str,
        mark: impl for<'m> Fn(&'m mut Self, &str) -> &'m mut Self,
    ) -> &mut Self {
        let mut rest = template;
        while let Some((before, marked)) = rest.split_once('{') {
            self.push(before);
            // a template without its closing bracket would end here, and Postgres would refuse what is left
            let (name, after) = marked.split_once('}').unwrap_or((marked, ""));
            mark(self, name);
            rest = after;
        }
        self.push(rest)
    }

    /// A name of the interface as a literal; the tables of fields hold only letters and digits there.
    fn name(&mut self, field: &Field) -> &mut Self {
        self.push("'").push(field.name).push("'")
    }

    /// What a field shows, as a value that JSON can be built of.
    pub(super) fn shown(&mut self, field: &'static Field, row: Alias) -> &mut Self {
        if let Some(json) = field.json {
            return self.expression(json, row);
        }
        match field.kind {
            Kind::Timestamp => self
                .push("to_char(")
                .expression(field.sql, row)
                .push(r#" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"#),
            // as many decimals as it has, not as its column
            Kind::Number => self.push("trim_scale(").expression(field.sql, row).push(")"),
            Kind::Many(link, _) => self.related(link, row),
            Kind::Object(fields) => self.object(fields.iter(), row),
            _ => self.expression(field.sql, row),
        }
    }

    /// The ids of related records, as an array.
    pub(super) fn related(&mut self, link: &'static Link, row: Alias) -> &mut Self {
        self.push("ARRAY(SELECT ").linked(link.id, row, Alias::LINK).push(" FROM ").push(link.table);
        self.push(" ")
            .alias(Alias::LINK)
            .push(" WHERE ")
            .linked(link.of, row, Alias::LINK)
            .push(" ORDER BY 1)")
    }

    /// An object with these fields.
    pub(super) fn object(&mut self, fields: impl Iterator<Item = &'static Field>, row: Alias) -> &mut Self {
        let fields: Vec<_> = fields.collect();
        if fields.len() > ARGUMENTS / 2 {
            return self.wide_object(&fields, row);
        }
        self.push("json_build_object(");
        for (position, field) in fields.into_iter().enumerate() {
            self.push(if position > 0 { ", " } else { "" }).name(field).push(", ").shown(field, row);
        }
        self.push(")")
    }

    /// An object with more fields than a function takes: a row of them. It is slower to build.
    fn wide_object(&mut self, fields: &[&'static Field], row: Alias) -> &mut Self {
        self.push("(SELECT row_to_json(r) FROM (SELECT ");
        for (position, field) in fields.iter().enumerate() {
            self.push(if position > 0 { ", " } else { "" }).shown(field, row);
            self.push(" AS \"").push(field.name).push("\"");
        }
        self.push(") AS r)")
    }

    /// Ready to run. Safe to assert: see the type.
    pub(super) fn finish(self) -> SqlStr {
        AssertSqlSafe(self.0).into_sql_str()
    }

    /// As it is kept for a look-up.
    pub(super) fn into_text(self) -> String {
        self.0
    }

    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// The values of a statement, the aliases it has given out, and whose rows it may see.
#[derive(Debug)]
pub(super) struct Binder<'s> {
    scope: &'s Scope,
    arguments: PgArguments,
    aliases: u32,
    subqueries: u32,
    organisations: Option<Sql>,
    all: Option<Sql>,
    one: Option<Sql>,
    eshop: Option<Sql>,
    wms: Option<Sql>,
    failure: Option<Problem>,
}

impl<'s> Binder<'s> {
    pub(super) fn new(scope: &'s Scope) -> Self {
        Self::after(PgArguments::default(), scope)
    }

    /// Of a statement that has these values already.
    pub(super) fn after(arguments: PgArguments, scope: &'s Scope) -> Self {
        Self {
            scope,
            arguments,
            aliases: 0,
            subqueries: 0,
            organisations: None,
            all: None,
            one: None,
            eshop: None,
            wms: None,
            failure: None,
        }
    }

    /// Binds a value; returns its placeholder.
    pub(super) fn bind<'v, T: Encode<'v, Postgres> + Type<Postgres>>(&mut self, value: T) -> Sql {
        if let Err(error) = self.arguments.add(value) {
            self.failure = Some(Problem::internal(error));
        }
        let mut placeholder = Sql::default();
        placeholder.push("$").number(self.arguments.len());
        placeholder
    }

    /// The values so far.
    pub(super) fn arguments(&mut self) -> Result<PgArguments, Problem> {
        match self.failure.take() {
            Some(problem) => Err(problem),
            None => Ok(self.arguments.clone()),
        }
    }

    /// A name for one more row.
    pub(super) fn alias(&mut self) -> Alias {
        self.aliases += 1;
        Alias(self.aliases)
    }

    /// The end of an `EXISTS`. Postgres turns it into a join, and so may begin with its rows; but the time to plan multiplies with
    /// each more (of orders through their items: 4 take 0.05 s, 8 take 0.6 s, 12 take 20 s). From the fourth on, each is a
    /// subquery of its own, whose time adds up.
    pub(super) fn end_of_exists(&mut self) -> &'static str {
        self.subqueries += 1;
        if self.subqueries > 3 { " OFFSET 0)" } else { ")" }
    }

    /// Puts the organisations of the scope (null: all), and its e-shop (null: any), in their places in a finished statement.
    pub(super) fn settle(&mut self, sql: &mut Sql) {
        if sql.0.contains(ESHOP) {
            let one = self.one.clone().unwrap_or_else(|| {
                let mut bound = self.bind(self.scope.eshop());
                bound.push("::uuid");
                bound
            });
            sql.0 = sql.0.replace(ESHOP, &one.0);
            self.one = Some(one);
        }
        if sql.0.contains(ORGANISATIONS) {
            let all = self.all.clone().unwrap_or_else(|| {
                let mut bound = self.bind(self.scope.organisations());
                bound.push("::uuid[]");
                bound
            });
            sql.0 = sql.0.replace(ORGANISATIONS, &all.0);
            self.all = Some(all);
        }
    }

    /// What the organisation of a row must be: `= $n` lets an index give the order, `= ANY($n)` does not.
    fn organisation(&mut self, organisations: &[OrganisationId]) -> Sql {
        if let Some(known) = &self.organisations {
            return known.clone();
        }
        let mut is = Sql::default();
        if let [only] = organisations {
            is.push(" = ").piece(&self.bind(*only));
        } else {
            is.push(" = ANY(").piece(&self.bind(organisations)).push(")");
        }
        self.organisations = Some(is.clone());
        is
    }

    /// Appends ` AND …` that keeps the rows which the caller may see.
    pub(super) fn limit(&mut self, sql: &mut Sql, tenancy: &Tenancy, row: Alias) {
        let Some(organisations) = self.scope.organisations() else { return };
        if tenancy.organisation == Tenancy::COMMON {
            return;
        }
        let several = tenancy.several.filter(|_| organisations.len() > 1);
        sql.push(if several.is_some() { " AND (" } else { " AND " }).expression(tenancy.organisation, row);
        if !tenancy.organisation.contains(ORGANISATIONS) {
            let organisation = self.organisation(organisations);
            sql.piece(&organisation);
        }
        if let Some(several) = several {
            sql.push(" OR ").expression(several, row).push(")");
        }
        if let (Some(predicate), Some(eshop)) = (tenancy.eshop, self.scope.eshop()) {
            let known = match self.eshop.take() {
                Some(known) => known,
                None => self.bind(eshop),
            };
            sql.push(" AND ").of_one(predicate, row, &known);
            self.eshop = Some(known);
        }
        match (self.scope.wms(), tenancy.wms) {
            (Some(wms), Some(predicate)) => {
                let known = match self.wms.take() {
                    Some(known) => known,
                    None => self.bind(wms),
                };
                sql.push(" AND ").of_one(predicate, row, &known);
                self.wms = Some(known);
            }
            // it is none of a wms's business
            (Some(_), None) => _ = sql.push(" AND false"),
            (None, _) => {}
        }
        if let (Some(predicate), Some(maker)) = (tenancy.maker, self.scope.maker()) {
            let maker = self.bind(maker);
            sql.push(" AND ").of_one(predicate, row, &maker);
        }
    }
}

/// SQL of looking records up: `$1` their ids, `$2` the organisations, `$3` the e-shop, `$4` the wms, `$5` the maker (null: all).
pub(super) fn look_up(resource: &'static Resource) -> &'static str {
    resource.look_up.0.get_or_init(|| {
        let row = Alias::ROOT;
        let mut sql = Sql::default();
        sql.push("SELECT ").alias(row).push(".id, ").object(resource.shown(), row).push("::text, ");
        sql.expression(resource.version, row);
        // by its key, independent of the statistics
        sql.push(" FROM unnest($1::uuid[]) AS wanted (id) JOIN ").table(resource).push(" ").alias(row);
        sql.push(" ON ").alias(row).push(".id = ANY (ARRAY[wanted.id]) WHERE ($2::uuid[] IS NULL OR ");
        sql.expression(resource.tenancy.organisation, row);
        if resource.tenancy.organisation != Tenancy::COMMON
            && !resource.tenancy.organisation.contains(ORGANISATIONS)
        {
            sql.push(" = ANY($2)");
        }
        if let Some(several) = resource.tenancy.several {
            sql.push(" OR ").expression(several, row);
        }
        sql.push(")");
        let [mut eshop, mut wms, mut maker] = [const { Sql(String::new()) }; 3];
        eshop.push("$3");
        wms.push("$4");
        maker.push("$5");
        // asked for even where no rule needs them, so that every look-up has the same five values
        sql.push(" AND ($3::uuid IS NULL OR ");
        sql.of_one(resource.tenancy.eshop.unwrap_or("true"), row, &eshop).push(")");
        sql.push(" AND ($4::uuid IS NULL OR ");
        let of_wms = match resource.tenancy.organisation {
            Tenancy::COMMON => "true",
            _ => resource.tenancy.wms.unwrap_or("false"),
        };
        sql.of_one(of_wms, row, &wms).push(") AND ($5::uuid IS NULL OR ");
        sql.of_one(resource.tenancy.maker.unwrap_or("true"), row, &maker).push(")");
        sql.into_text().replace(ORGANISATIONS, "$2::uuid[]")
    })
}
