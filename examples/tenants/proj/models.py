"""The tenants, each with a schema of its own in PostgreSQL."""

from django_tenants.models import DomainMixin, TenantMixin


class Tenant(TenantMixin):  # type: ignore[misc]
    """A tenant; its schema is created when it is saved."""

    auto_create_schema = True


class Domain(DomainMixin):  # type: ignore[misc]
    """The host name of a tenant."""
